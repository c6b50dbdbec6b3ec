"""The environment variables that steer the pipeline, and their defaults.

Belongs here: names and defaults, nothing else. Credentials are the AWS clients' own variables.
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """An environment variable; empty counts as unset."""

    name: str
    default: str

    @property
    def is_set(self) -> bool:
        """Whether the environment has a value for it."""
        return bool(os.environ.get(self.name))

    @property
    def value(self) -> str:
        """The environment's value, or the default."""
        return os.environ.get(self.name) or self.default


PREFIX = Variable("MARIN_PREFIX", "./marin_data")
"""Root of the store: a local path or `s3://bucket/prefix`."""

INPUT = Variable("MARIN_INPUT", "fixtures/quickstart")
"""Folder or file of collected pages."""

TOKENIZER = Variable("MARIN_TOKENIZER", "fixtures/gpt2_tokenizer.json")
"""Path of a `tokenizer.json`, or a Hugging Face name."""
