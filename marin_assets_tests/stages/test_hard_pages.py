"""Pages that break parsers give a right result or a right status, in two seconds and 300 MB, by every method."""

import gzip
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from marin_assets.stages.html_to_markdown import ExtractMethod, HtmlToMarkdownConfig
from marin_assets.stages.page_extraction import Extraction, PageRequest, Status, extract_page
from marin_assets.workers import Guard, Returned

_SENTENCE = "Good bread is made of flour and water, salt and time, and of the patience of those who bake it."
_JAPANESE = "良いパンは小麦粉と水、塩と時間、そして焼く人の忍耐から作られます。" * 4
_CHINESE = "好面包由面粉、水、盐和时间以及烘焙者的耐心制成。" * 4
_FRENCH = "Le café où l’on déjeune — naïf, « à côté » de l’église — coûte 3 €, même très tôt. " * 4
_SECONDS = 2
_MIB = 1 << 20
_PEAK_BYTES = 300 * _MIB


def _page(content: str, head: str = "") -> str:
    return (
        f"<!doctype html><html><head><title>Bread</title>{head}</head><body><article><h1>Bread</h1>"
        f"<p>First. {_SENTENCE}</p>{content}<p>Last. {_SENTENCE} {_SENTENCE}</p></article></body></html>"
    )


def _nested(opening: str, closing: str, levels: int) -> str:
    return _page(opening * levels + f"Inside. {_SENTENCE}" + closing * levels)


def _attributes(count: int) -> str:
    return " ".join(f'a{number}="{number}"' for number in range(count))


@dataclass(frozen=True)
class _Case:
    make: Callable[[], bytes | str]
    has: tuple[str, ...] = ("First. Good", "Last. Good")
    status: Status = Status.ok
    has_not: tuple[str, ...] = ("�", "\0")


_INSIDE = ("First. Good", "Inside. Good", "Last. Good")
_CASES = {
    "10,000 nested div": _Case(lambda: _nested("<div>", "</div>", 10_000), _INSIDE),
    "100,000 nested div": _Case(lambda: _nested("<div>", "</div>", 100_000), _INSIDE),
    "100,000 nested div, none closed": _Case(lambda: _nested("<div>", "", 100_000), ("First. Good", "Inside. Good")),
    "5,000 nested blockquote": _Case(lambda: _nested("<blockquote>", "</blockquote>", 5_000), _INSIDE),
    "5,000 nested ul": _Case(lambda: _nested("<ul><li>", "</li></ul>", 5_000)),
    "20,000 nested b and i": _Case(lambda: _nested("<b><i>", "</i></b>", 20_000), _INSIDE),
    "50,000 linked paragraphs": _Case(
        lambda: _page("".join(f"<p><a href=/{n}>Linked paragraph number {n}</a></p>" for n in range(50_000))),
        ("First. Good", "paragraph number 0\n", "paragraph number 49999\n"),
    ),
    "200,000 br": _Case(lambda: _page("<p>" + "line<br>" * 200_000), ("First. Good", "line  \n" * 100, "Last. Good")),
    "a 20,000-row table": _Case(
        lambda: _page(
            "<table><tr><th>No<th>Name</tr>"
            + "".join(f"<tr><td>{n}</td><td>cell {n}</td></tr>" for n in range(20_000))
            + "</table>"
        ),
        ("First. Good", "| cell 0 ", "| cell 19999 ", "Last. Good"),
    ),
    "100,000 attributes": _Case(lambda: _page(f"<p {_attributes(100_000)}>Inside. {_SENTENCE}</p>"), _INSIDE),
    "10 MB in one paragraph": _Case(
        lambda: _page(f"<p>{f'{_SENTENCE} ' * 104_000}Inside. {_SENTENCE}</p>"),
        (*_INSIDE, " ".join([_SENTENCE] * 50)),
    ),
    "a 5 MB data: image": _Case(
        lambda: _page(f'<p><img src="data:image/png;base64,{"A" * 5_000_000}">Inside. {_SENTENCE}</p>'),
        _INSIDE,
        has_not=("AAAA",),
    ),
    "PDF": _Case(lambda: b"%PDF-1.7\n<html><p>not really" + bytes(range(256)) * 40, (), Status.not_html),
    "PNG": _Case(lambda: b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, (), Status.not_html),
    "gzip": _Case(lambda: gzip.compress(_page("").encode()), (), Status.not_html),
    "UTF-16 with mark": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("utf-16"), (_JAPANESE,)),
    "UTF-16 LE": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("utf-16-le"), (_JAPANESE,)),
    "UTF-16 BE": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("utf-16-be"), (_JAPANESE,)),
    "UTF-32 with mark": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("utf-32"), (_JAPANESE,)),
    "UTF-32 LE": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("utf-32-le"), (_JAPANESE,)),
    "UTF-32 BE": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("utf-32-be"), (_JAPANESE,)),
    "GBK declared after 20 kB of ASCII": _Case(
        lambda: _page(f"<p>{_CHINESE}</p>", f"<script>{'x = 1; ' * 3000}</script><meta charset=gbk>").encode("gbk"),
        (_CHINESE,),
    ),
    "GBK undeclared": _Case(lambda: _page(f"<p>{_CHINESE}</p>").encode("gbk"), (_CHINESE,)),
    "Shift-JIS declared": _Case(
        lambda: _page(f"<p>{_JAPANESE}</p>", "<meta charset=Shift_JIS>").encode("cp932"), (_JAPANESE,)
    ),
    "Shift-JIS undeclared": _Case(lambda: _page(f"<p>{_JAPANESE}</p>").encode("cp932"), (_JAPANESE,)),
    "windows-1252 called UTF-8": _Case(
        lambda: _page(f"<p>{_FRENCH}</p>", "<meta charset=utf-8>").encode("cp1252"), (_FRENCH.strip(),)
    ),
    "UTF-8 cut inside a character": _Case(
        lambda: _page(f"<p>{_JAPANESE}</p>").encode().partition("耐".encode())[0] + "耐".encode()[:-1],
        ("First. Good", _JAPANESE.partition("耐")[0]),
    ),
    "NUL and control characters": _Case(
        lambda: _page("<p>In\0side. Go\x01od b\x1bread is" + "".join(map(chr, range(1, 9))) + " made.</p>").encode(),
        ("First. Good", "Inside. Good bread is made.", "Last. Good"),
        has_not=("\0", "\x01", "\x1b"),
    ),
    "frameset": _Case(
        lambda: '<html><head><title>Frames</title></head><frameset cols="50%,50%"><frame src=a.html></frameset></html>',
        (),
        Status.empty,
    ),
    "plain text": _Case(lambda: f"{_SENTENCE}\n\n1 < 2 & 3 > 2\n".encode(), (), Status.not_html),
    "JSON": _Case(lambda: b'{"title": "Bread", "body": [1, 2, 3]}', (), Status.not_html),
    "empty file": _Case(lambda: b"", (), Status.empty),
    "svg and template, cut off": _Case(lambda: _page("").removesuffix("</article></body></html>") + "<svg><template>"),
}  # fmt: skip


@dataclass(frozen=True)
class _Measured:
    extraction: Extraction
    cpu_seconds: float
    peak_bytes: int


def _extract(request: PageRequest) -> _Measured:
    Path("/proc/self/clear_refs").write_text("5")  # begins a new peak
    started = time.process_time()
    extraction = extract_page(request)
    seconds = time.process_time() - started
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return _Measured(extraction, seconds, peak)


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard[PageRequest, _Measured]]:
    with Guard(_extract, cpu_seconds=20, wall_seconds=120, memory_bytes=1 << 30) as guard:
        for method in ExtractMethod:  # imports what the methods need
            guard(_request(_page(""), method))
        yield guard
    assert psutil.Process().children(recursive=True) == []


def _request(html: bytes | str, method: ExtractMethod) -> PageRequest:
    return PageRequest(html, None, HtmlToMarkdownConfig(extract_method=method))


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("method", list(ExtractMethod))
def test_a_hard_page(method: ExtractMethod, name: str, guard: Guard[PageRequest, _Measured]) -> None:
    case = _CASES[name]
    outcome = guard(_request(case.make(), method))
    assert isinstance(outcome, Returned), outcome
    measured = outcome.value
    assert measured.extraction.status is case.status, measured.extraction.error
    for text in case.has:
        assert text in measured.extraction.text
    for text in case.has_not:
        assert text not in measured.extraction.text
    assert measured.cpu_seconds < _SECONDS
    assert measured.peak_bytes < _PEAK_BYTES
