"""A child interpreter that calls the functions sent to it, and never outlives its parent.

Belongs here: how a child is started, spoken to, limited and ended. Does not: pools and budgets, which are in
`workers`. The child is a fresh interpreter, neither forked (threads of Polars and torch do not survive that) nor
one of `multiprocessing` (which would run the caller's main script again).
"""

import ctypes
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

_BOOTSTRAP = (
    "import sys; sys.path[:] = sys.argv[4:]; from marin_assets.child_process import serve; serve(*sys.argv[1:4])"
)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Call:
    """What a child is asked to do: `function(item)`, within `cpu_seconds` of processor time unless that is None."""

    function: Callable[..., object]
    item: object
    cpu_seconds: float | None


@dataclass(frozen=True)
class Raised:
    """The call raised an exception. `exception` is None when it can't be pickled."""

    exception: Exception | None
    summary: str
    """Type and message, on one line."""
    traceback: str
    out_of_memory: bool


@dataclass(frozen=True)
class Value:
    """The call returned."""

    value: object


class ChildDiedError(Exception):
    """The child ended without an answer. `exit_code` is negative for a signal, as in `subprocess`."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        if self.exit_code >= 0:
            return f"exited with code {self.exit_code}"
        return f"was ended by {signal.Signals(-self.exit_code).name}"


class ChildProcess:
    """The parent's end of one child. Use it as a context manager, in the thread that started it.

    Args:
        threads: cap on the threads of numerical libraries in the child; 0 leaves them alone.
        memory_bytes: cap on the child's writable memory; 0 for none. Linux only: macOS does not enforce it.
    """

    def __init__(self, *, threads: int = 0, memory_bytes: int = 0) -> None:
        self.connection, theirs = Pipe()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        arguments = [str(theirs.fileno()), str(os.getpid()), str(memory_bytes)]
        caps = dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS"), str(threads)) if threads else {}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP, *arguments, *path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **caps},
            )
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()

    def submit(self, function: Callable[..., object], item: object, cpu_seconds: float | None = None) -> None:
        """Send a call; the child must be idle. A child that is dead already is reported by `receive`."""
        request = pickle.dumps(Call(function, item, cpu_seconds))
        try:
            self.connection.send_bytes(request)
        except (BrokenPipeError, ConnectionResetError):
            return

    @contextmanager
    def killed_after(self, seconds: float) -> Iterator[threading.Event]:
        """Kill the child when the block takes longer, and set the event that the block is given.

        A timer does it, since a child that is stuck may hold the parent in `submit` or `receive`, with a pipe full.
        """
        expired = threading.Event()

        def kill() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield expired
        finally:
            timer.cancel()

    def receive(self) -> Value | Raised:
        """Wait for the answer to the last call.

        Raises:
            ChildDiedError: the child ended without one.
        """
        try:
            answer: Value | Raised = pickle.loads(self.connection.recv_bytes())  # noqa: S301 - from our own child
        except (EOFError, ConnectionResetError):
            raise ChildDiedError(self._process.wait()) from None
        return answer

    def close(self) -> None:
        """End the child at once."""
        self._process.kill()
        self._process.wait()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(descriptor: str, parent: str, memory_bytes: str) -> None:
    """The child's life: answer calls until the parent closes its end."""
    die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    if int(memory_bytes):
        _limit(resource.RLIMIT_DATA, int(memory_bytes))
    _limit(resource.RLIMIT_CORE, 0)
    connection = Connection(int(descriptor))
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, ConnectionResetError):
            return
        connection.send_bytes(_answer(request))


def _answer(request: bytes) -> bytes:
    try:
        call: Call = pickle.loads(request)  # noqa: S301 - from our own parent
        if call.cpu_seconds is not None:
            _limit(resource.RLIMIT_CPU, int(time.process_time() + call.cpu_seconds) + 1)
        return pickle.dumps(Value(call.function(call.item)))
    except Exception as error:  # noqa: BLE001 - whatever the function raises is the answer
        return pickle.dumps(_raised(error))


def _raised(error: Exception) -> Raised:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled on this line
        portable: Exception | None = error
    except Exception:  # noqa: BLE001 - an exception class may refuse in any way it likes
        portable = None
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    return Raised(portable, summary, "".join(traceback.format_exception(error)), isinstance(error, MemoryError))


def _limit(what: int, value: int) -> None:
    """Set a soft limit, as near to the value as the hard one allows."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def die_with(parent: int) -> None:
    """End this process when the parent ends, even by SIGKILL, and even while a C function holds the interpreter.

    The kernel does that on Linux; elsewhere a thread looks once a second.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be watched
        os._exit(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
