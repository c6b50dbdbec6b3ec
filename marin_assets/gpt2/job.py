"""A training run as files, for processes that another one starts: what they are to do, and what came of it.

Belongs here: what passes between the process that launches and the ranks. Does not: launching, training.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from marin_assets import errors
from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.manifest import FileEntry, Manifest, Recipe
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.results import TrainingStats

_JOB, _RESULT, _FAILURE = "job.json", "result.json", "failure-{rank}.json"


class Result(BaseModel):
    """What the first rank leaves."""

    model_config = ConfigDict(frozen=True)

    stats: TrainingStats
    files: list[FileEntry]
    """Of the artifact, all in its directory."""


class Job(BaseModel):
    """What all ranks are to do. The directories must be the same for all of them."""

    model_config = ConfigDict(frozen=True)

    config: TrainingConfig
    machine: Machine
    tokens: Manifest
    """Of the token cache."""
    ancestors: tuple[Manifest, ...]
    """What the token cache was made from."""
    tokens_directory: Path
    out: Path
    recipe: Recipe | None
    """What `out` is made by."""

    @classmethod
    def read(cls, directory: Path) -> Job:
        return cls.model_validate_json((directory / _JOB).read_bytes())

    def write(self, directory: Path) -> None:
        """Put the job into its directory, without what an earlier one left there."""
        for left in [directory / _RESULT, *directory.glob(_FAILURE.format(rank="*"))]:
            left.unlink(missing_ok=True)
        (directory / _JOB).write_text(self.model_dump_json())

    def token_cache(self) -> Artifact:
        """The token cache, whose files were checked by the process that launches."""
        return Artifact(
            self.tokens,
            str(self.tokens_directory),
            lambda entry: self.tokens_directory / entry.name,
            lambda: self.ancestors,
        )


def write_result(directory: Path, stats: TrainingStats, files: Iterable[FileEntry]) -> None:
    (directory / _RESULT).write_text(Result(stats=stats, files=list(files)).model_dump_json())


def read_result(directory: Path) -> Result:
    return Result.model_validate_json((directory / _RESULT).read_bytes())


def write_failure(directory: Path, rank: int, failure: errors.MarinAssetsError) -> None:
    """Keep what a rank says about its end."""
    said = {"error": type(failure).__name__, "message": str(failure)}
    (directory / _FAILURE.format(rank=rank)).write_text(json.dumps(said))


def read_failure(directory: Path) -> errors.MarinAssetsError | None:
    """The error of the lowest rank that left one."""
    for path in sorted(directory.glob(_FAILURE.format(rank="*"))):
        said = json.loads(path.read_text())
        error: errors.MarinAssetsError = getattr(errors, said["error"])(said["message"])
        return error
    return None
