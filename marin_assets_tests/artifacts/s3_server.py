"""An S3 server for tests: moto's, over HTTP on loopback, with faults on demand and a record of what was asked."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from marin_assets.artifacts.s3_options import S3Options

BUCKET = "marin-test"
ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key"

_App = Callable[[dict[str, Any], Any], Iterable[bytes]]


@dataclass
class Fault:
    """What the server does to the next requests of a kind instead of answering them well."""

    method: str
    path: str
    """Part of the request's path."""
    times: int = 1
    status: str | None = None
    """Answer with this status, e.g. `503 Slow Down`; the request is not carried out."""
    code: str = "InternalError"
    lose_answer: bool = False
    """Carry the request out, then drop the connection."""
    cut_body: bool = False
    """Send half of the body, then drop the connection."""
    delay_seconds: float = 0.0

    def concerns(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and self.path in path


class _QuietHandler(MotoRequestHandler):
    def log(self, *_: object) -> None:
        """Says nothing: requests are in `S3Server.requests`."""


@dataclass
class S3Server:
    """Started by `start`; `requests` lists `METHOD path?query` in the order of arrival."""

    requests: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._around(app), threaded=True, request_handler=_QuietHandler)
        self._server.daemon_threads = True  # type: ignore[attr-defined]  # of socketserver.ThreadingMixIn
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        with urlopen(Request(f"{self.endpoint}/{BUCKET}", method="PUT")) as answer:
            assert answer.status == 200

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> S3Options:
        return S3Options("us-east-1", self.endpoint, ACCESS_KEY, SECRET_KEY)

    def reset(self) -> None:
        self.requests.clear()
        self.faults.clear()

    def _around(self, app: _App) -> _App:
        def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            method, path, query = environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]
            with self._lock:
                self.requests.append(f"{method} {path}?{query}")
                fault = next((one for one in self.faults if one.concerns(method, path)), None)
                if fault is not None:
                    fault.times -= 1
            if fault is None:
                return app(environ, start_response)
            time.sleep(fault.delay_seconds)
            if fault.status is not None:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                body = f"<Error><Code>{fault.code}</Code><Message>As the test wants.</Message></Error>".encode()
                start_response(fault.status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
                return [body]
            if fault.lose_answer:
                b"".join(app(environ, lambda *_: None))
                return self._dropped(environ, b"")
            if fault.cut_body:
                sent: list[Any] = []
                body = b"".join(app(environ, lambda *said: sent.extend(said)))
                start_response(*sent[:2])
                return self._dropped(environ, body[: len(body) // 2])
            return app(environ, start_response)

        return serve

    def _dropped(self, environ: dict[str, Any], body: bytes) -> Iterator[bytes]:
        if body:
            yield body
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError
