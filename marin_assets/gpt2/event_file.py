"""TensorBoard events of a run, for those who watch runs there.

Belongs here: names of the curves. The writer is `tensorboardX`, of the extra `tensorboard`: it needs no TensorBoard.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from marin_assets.errors import SettingsError

if TYPE_CHECKING:
    from types import TracebackType

    from tensorboardX import SummaryWriter

FOLDER = "tensorboard"


class EventFile:
    """One file of events below `directory`; each process that goes on with a run writes a new one.

    Args:
        resumed_at: events after this step, of a run that was stopped later, are hidden.

    Raises:
        SettingsError: `tensorboardX` is not installed.
    """

    def __init__(self, directory: Path, resumed_at: int) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ModuleNotFoundError as error:
            raise SettingsError(
                "tensorboard is asked for and tensorboardX is not installed; "
                "run `pip install 'marin-assets[tensorboard]'`, or leave tensorboard false"
            ) from error
        self._writer: SummaryWriter = SummaryWriter(str(directory / FOLDER), purge_step=resumed_at + 1, flush_secs=10)

    def add(self, step: int, **values: float | None) -> None:
        """One point of each curve whose value is known. `loss__training` is shown as `loss/training`."""
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name.replace("__", "/"), value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
