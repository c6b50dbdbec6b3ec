"""A request to stop, which waits for the end of the step.

Belongs here: signals. A run that is told to end (SIGTERM, Ctrl-C) would lose what it did since the last checkpoint, and
might be in the middle of an update.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass
class StopRequest:
    """The signal that came, if one did."""

    number: signal.Signals | None = None

    @property
    def came(self) -> bool:
        return self.number is not None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Note SIGTERM and SIGINT instead of obeying them. Ctrl-C may come twice, from the terminal and from `torchrun`.

    Outside of the main thread Python handles no signals, and this does nothing.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in _SIGNALS}

    def note(number: int, _: FrameType | None) -> None:
        request.number = signal.Signals(number)

    try:
        for number in _SIGNALS:
            signal.signal(number, note)
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
