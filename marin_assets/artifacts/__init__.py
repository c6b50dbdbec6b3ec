"""The store of immutable, content-addressed artifacts that every asset is kept in.

Belongs here: what an artifact is, when it can be reused, where its bytes lie. Does not: what a stage computes.
Only `io_manager` knows Dagster.
"""
