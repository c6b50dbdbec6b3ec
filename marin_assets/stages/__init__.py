"""What each data stage does to files.

Belongs here: one module a stage, with its settings, its columns and one public function
`(inputs, config, out) -> stats`. Does not: Dagster, caching, storage. Each stage runs from a plain script.
"""
