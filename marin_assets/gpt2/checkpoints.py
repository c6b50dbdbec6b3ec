"""Checkpoints: what a stopped run needs to go on, bit for bit as if it had not stopped.

Belongs here: which checkpoints are written, kept and resumed. Each is a directory `step-NNNNNN/` of safetensors and
JSON. Learning rate, order of samples and dropout are functions of the step, so the step stands for their states.
All ranks write and read one set of checkpoints, in a directory that all of them see; its tensors are whole, so that
another number of processes can go on from them.
"""

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from safetensors.torch import load_file
from torch import Tensor, nn

from marin_assets.errors import InputError, TrainingError
from marin_assets.gpt2.checkpoint_files import PARTIAL, damage, write_directory
from marin_assets.gpt2.config import Gpt2Size, TrainingConfig
from marin_assets.gpt2.forward import BatchLoss
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.optimizer import AdamW
from marin_assets.gpt2.ranks import ALONE, Ranks
from marin_assets.gpt2.spread import fill, whole

logger = logging.getLogger(__name__)

_SIZE_SETTINGS = ("model", "layers", "heads", "hidden_size")


@dataclass
class TrainingState:
    """All that changes from step to step."""

    model: Gpt2
    loss_sum: BatchLoss
    """The model and its loss."""
    training_loss: nn.Module
    """`loss_sum`, or what wraps it to spread gradients over ranks."""
    optimizer: AdamW
    step: int = 0
    """Updates made so far."""
    is_whole: bool = True
    """False while an update is being made."""


class _Saved(BaseModel):
    """`state.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step: int
    identity: dict[str, JsonValue]
    validation_loss: float | None = None
    interrupted: bool = False
    """Written because the run was stopped; goes when the next one is written."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: holds one directory for each checkpoint.
        identity: what decides the weights: a checkpoint of another identity is refused, not continued.
        keep: newest checkpoints that stay; so does the one with the lowest validation loss.
        ranks: all of them call `save` and `resume`; the first one writes.
    """

    directory: Path
    identity: dict[str, JsonValue]
    keep: int
    ranks: Ranks = ALONE

    def save(self, state: TrainingState, *, validation_loss: float | None) -> Path:
        """Write a checkpoint of the state, then drop those that are no longer kept.

        Args:
            validation_loss: of this very state, if it was evaluated.
        """
        return self._save(state, _Saved(step=state.step, identity=self.identity, validation_loss=validation_loss))

    def save_interrupted(self, state: TrainingState) -> Path:
        """Write a checkpoint of a run that must stop, unless this step has one already."""
        path = self._path(state.step)
        if path.exists() and damage(path) is None:
            return path
        return self._save(state, _Saved(step=state.step, identity=self.identity, interrupted=True))

    def resume(self, state: TrainingState) -> Path | None:
        """Bring the state to the newest complete checkpoint; None where there is none. Incomplete ones are named.

        Raises:
            TrainingError: the checkpoint was made with other data or settings.
        """
        if self.ranks.is_first:
            for partial in sorted(self.directory.glob(f"step-*{PARTIAL}")):
                logger.warning("dropping %s: its run stopped before it was complete", partial)
                shutil.rmtree(partial)
        self.ranks.wait()
        for path in reversed(self.paths()):
            if found := damage(path):
                logger.warning("skipping checkpoint %s: %s", path, found)
                continue
            self._load(path, state)
            return path
        return None

    def paths(self) -> list[Path]:
        """Checkpoint directories, oldest first."""
        return sorted((path for path in self.directory.glob("step-*") if path.suffix != PARTIAL), key=_step_of)

    def complete(self) -> list[Path]:
        """Checkpoints that are whole, oldest first."""
        return [path for path in self.paths() if damage(path) is None]

    def _path(self, step: int) -> Path:
        return self.directory / f"step-{step:06d}"

    def _save(self, state: TrainingState, saved: _Saved) -> Path:
        path = self._path(saved.step)
        tensors = {
            "model": _whole(dict(state.model.named_parameters()), self.ranks),
            "optimizer": _whole(state.optimizer.state(), self.ranks),
        }
        if self.ranks.is_first:
            write_directory(path, tensors, saved.model_dump())
            self._drop_old(saved.step)
        self.ranks.wait()
        return path

    def _drop_old(self, step: int) -> None:
        """Drop all up to `step` but the newest and the best. Later ones are damaged: this run did not find them."""
        saved = {path: _read(path) for path in self.paths() if _step_of(path) <= step}
        regular = [path for path, one in saved.items() if not one.interrupted]
        losses = [(one.validation_loss, path) for path, one in saved.items() if one.validation_loss is not None]
        kept = {self._path(step), *regular[-self.keep :], *(path for _, path in sorted(losses)[:1])}
        for path in saved.keys() - kept:
            shutil.rmtree(path)

    def _load(self, path: Path, state: TrainingState) -> None:
        saved = _read(path)
        if differences := list(_differences(saved.identity, self.identity)):
            raise TrainingError(
                f"checkpoint {path} belongs to another run ({'; '.join(differences)}); "
                f"restore these, or train into another directory"
            )
        weights = load_file(path / "model.safetensors")
        for name, parameter in state.model.named_parameters():
            fill(parameter, weights[name])
        state.optimizer.load_state(load_file(path / "optimizer.safetensors"))
        state.step = saved.step


def saved_size(path: Path) -> Gpt2Size:
    """The size of the model in a checkpoint.

    Raises:
        InputError: its `state.json` does not say.
    """
    identity = _read(path).identity
    try:
        return TrainingConfig.model_validate({name: identity[name] for name in _SIZE_SETTINGS}).size
    except (KeyError, ValidationError) as error:
        raise InputError(f"{path / 'state.json'} does not say how large its model is; is it a checkpoint?") from error


def _read(path: Path) -> _Saved:
    """What a checkpoint says of itself; nothing of interest where that is damaged."""
    try:
        return _Saved.model_validate_json((path / "state.json").read_bytes())
    except (OSError, ValueError):
        return _Saved(step=_step_of(path), identity={})


def _whole(tensors: dict[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """The tensors on the CPU of the first rank; the others get none. One is gathered after the other."""
    gathered = ((name, whole(tensor.detach())) for name, tensor in tensors.items())
    return {name: tensor.cpu() for name, tensor in gathered if ranks.is_first}


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _differences(saved: dict[str, JsonValue], current: dict[str, JsonValue]) -> Iterator[str]:
    for name in sorted(saved.keys() | current.keys()):
        before, now = saved.get(name), current.get(name)
        if before != now:
            yield f"{name} was {before} and is now {now}"
