"""A GPT-2 trainer: model, batches, training loop, checkpoints, Hugging Face export.

Belongs here: all that PyTorch does. Does not: Dagster, caching, storage. Usable from a plain script.
"""
