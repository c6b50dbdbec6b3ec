"""Checkpoints: what a stopped run needs to go on, bit for bit as if it had not stopped.

Belongs here: `step-NNNNNN/` directories of safetensors and JSON. A checkpoint is written beside its name, its list of
files (`complete.json`) last, and renamed: one that can be seen is complete, or was damaged later, which its list tells.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import JsonValue
from safetensors.torch import load_file, save_file
from torch import Tensor

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import TrainingError
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.optimizer import AdamW

logger = logging.getLogger(__name__)

_COMPLETE = "complete.json"
_PARTIAL = ".partial"


@dataclass
class TrainingState:
    """All that changes from step to step."""

    model: Gpt2
    optimizer: AdamW
    step: int = 0
    """Updates made so far."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: holds one directory for each checkpoint.
        identity: what decides the weights: a checkpoint of another identity is refused, not continued.
        keep: newest checkpoints that stay.
    """

    directory: Path
    identity: dict[str, JsonValue]
    keep: int

    def save(self, state: TrainingState) -> Path:
        """Write a checkpoint of the state, then drop the oldest ones beyond `keep`."""
        destination = self.directory / f"step-{state.step:06d}"
        partial = destination.with_name(destination.name + _PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file(_contiguous(state.model.state_dict()), partial / "model.safetensors")
        save_file(_contiguous(state.optimizer.state()), partial / "optimizer.safetensors")
        save_file(_random_states(), partial / "random.safetensors")
        _write_json(partial / "state.json", {"step": state.step, "identity": self.identity})
        _write_json(partial / _COMPLETE, {"files": _listing(partial)})
        for path in [*partial.iterdir(), partial]:
            _fsync(path)
        if destination.exists():  # only a damaged one: a good one would have been resumed
            shutil.rmtree(destination)
        partial.rename(destination)
        _fsync(self.directory)
        up_to_now = [path for path in self.paths() if _step_of(path) <= state.step]  # later ones are damaged
        for old in up_to_now[: -self.keep]:
            shutil.rmtree(old)
        return destination

    def resume(self, state: TrainingState) -> Path | None:
        """Bring the state to the newest complete checkpoint; None where there is none. Incomplete ones are named.

        Raises:
            TrainingError: the checkpoint was made with other data or settings.
        """
        for partial in sorted(self.directory.glob(f"step-*{_PARTIAL}")):
            logger.warning("dropping %s: its run stopped before it was complete", partial)
            shutil.rmtree(partial)
        for path in reversed(self.paths()):
            if damage := _damage(path):
                logger.warning("skipping checkpoint %s: %s", path, damage)
                continue
            self._load(path, state)
            return path
        return None

    def paths(self) -> list[Path]:
        """Checkpoint directories, oldest first."""
        return sorted(
            (path for path in self.directory.glob("step-*") if path.suffix != _PARTIAL),
            key=_step_of,
        )

    def complete(self) -> list[Path]:
        """Checkpoints that are whole, oldest first."""
        return [path for path in self.paths() if _damage(path) is None]

    def _load(self, path: Path, state: TrainingState) -> None:
        saved = json.loads((path / "state.json").read_text())
        if differences := list(_differences(saved["identity"], self.identity)):
            raise TrainingError(
                f"checkpoint {path} belongs to another run ({'; '.join(differences)}); "
                f"restore these, or train into another directory"
            )
        state.model.load_state_dict(load_file(path / "model.safetensors"))
        state.optimizer.load_state(load_file(path / "optimizer.safetensors"))
        _restore_random_states(load_file(path / "random.safetensors"))
        state.step = int(saved["step"])


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _differences(saved: dict[str, JsonValue], current: dict[str, JsonValue]) -> Iterator[str]:
    for name in sorted(saved.keys() | current.keys()):
        before, now = saved.get(name), current.get(name)
        if before != now:
            yield f"{name} was {before} and is now {now}"


def _damage(path: Path) -> str | None:
    """What is wrong with a checkpoint's files, if anything."""
    try:
        listing = json.loads((path / _COMPLETE).read_text())["files"]
    except FileNotFoundError:
        return f"it has no {_COMPLETE}"
    except (ValueError, KeyError) as error:
        return f"{_COMPLETE} cannot be read ({error})"
    for name, (size, digest) in listing.items():
        file = path / name
        if not file.exists():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes instead of {size}"
        if file_digest(file) != digest:
            return f"{name} was altered"
    return None


def _listing(directory: Path) -> dict[str, JsonValue]:
    """Size and digest of each file."""
    return {path.name: [path.stat().st_size, file_digest(path)] for path in sorted(directory.iterdir())}


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def _random_states() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _restore_random_states(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def _write_json(path: Path, value: dict[str, JsonValue]) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
