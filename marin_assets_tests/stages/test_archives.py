"""Pages inside zip and WARC archives: each found, traced and decoded, and damage costs itself alone."""

import gzip
import io
import json
import random
import shutil
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig
from marin_assets.stages.page_decoding import decode_page
from marin_assets.stages.page_extraction import PageRequest, Status, extract_page
from marin_assets.stages.page_reading import Page, read_pages
from marin_assets.stages.page_slices import PageSlice, slices_of
from marin_assets.stages.raw_html import raw_html

_LARGE = 1 << 20
_HTML = "<p>Grüße aus dem Archiv, " + "noch ein Wort " * 40
_BODY = _HTML.encode()


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _zstd(data: bytes) -> bytes:
    from fastwarc.stream_io import ZstdWriter

    target = io.BytesIO()
    writer = ZstdWriter(target)
    writer.write(data)
    writer.close()
    return target.getvalue()


def _brotli(data: bytes) -> bytes:
    from fastwarc.stream_io import BrotliWriter

    target = io.BytesIO()
    writer = BrotliWriter(target)
    writer.write(data)
    writer.close()
    return target.getvalue()


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": _gzip, ".zst": _zstd}


def _pages(path: Path, content: bytes, limit: int = _LARGE) -> list[Page]:
    path.write_bytes(content)
    (file,) = raw_html(path).files
    return list(read_pages(PageSlice(file), max_page_bytes=limit))


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return target.getvalue()


def _chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[place : place + size] for place in range(0, len(body), size)]
    return b"".join(b"%x;name=value\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _deflate_without_header(body: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(body) + encoder.flush()


def _record(number: int, body: bytes = _BODY, http: str = "Content-Type: text/html", kind: str = "response") -> bytes:
    block = f"HTTP/1.1 200 OK\r\n{http}\r\n\r\n".encode() + body
    lines = (
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <urn:uuid:{number}>",
        "WARC-Date: 2024-05-06T07:08:09Z",
        f"WARC-Target-URI: http://example.org/{number}",
        "Content-Type: application/http; msgtype=response",
        f"Content-Length: {len(block)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


@pytest.mark.parametrize("suffix", _COMPRESS)
def test_html_members_of_a_zip_are_pages(tmp_path: Path, suffix: str) -> None:
    members = {
        "a.html": b"<p>a",
        "deep/er/": b"",
        "deep/er/b.XHTML": b"<p>b",
        "picture.png": b"\x89PNG",
        "__MACOSX/._a.html": b"hidden",
        "../../etc/c.htm": b"<p>c",
    }
    pages = _pages(tmp_path / f"a.zip{suffix}", _COMPRESS[suffix](_zip(members)))
    assert [(page.record, page.html, page.failure) for page in pages] == [
        (0, b"<p>a", None),
        (2, b"<p>b", None),
        (5, b"<p>c", None),
    ]
    assert [json.loads(page.metadata) for page in pages] == [
        {"member": "a.html"},
        {"member": "deep/er/b.XHTML"},
        {"member": "../../etc/c.htm"},
    ]
    assert {page.file for page in pages} == {f"a.zip{suffix}"}
    assert pages[0].source_id == xxhash.xxh3_128_hexdigest(b"<p>a")
    assert [path.name for path in tmp_path.iterdir()] == [f"a.zip{suffix}"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_over_the_limit_is_not_read_to_its_end(tmp_path: Path, method: int) -> None:
    content = _zip({"bomb.html": bytes(3_000_000), "b.html": b"<p>b"}, method)
    bomb, other = _pages(tmp_path / "a.zip", content, limit=1000)
    assert (len(bomb.html), bomb.failure) == (1001, None)
    assert other.html == b"<p>b"
    config = HtmlToMarkdownConfig(max_page_bytes=1000)
    assert extract_page(PageRequest(bomb.html, None, config)).status is Status.too_large


def test_an_encrypted_or_corrupt_member_costs_itself_alone(tmp_path: Path) -> None:
    content = bytearray(_zip({"a.html": b"<p>secret", "b.html": b"<p>flipped", "c.html": b"<p>c"}, zipfile.ZIP_STORED))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    content[content.index(b"<p>flipped") + 4] ^= 1
    secret, corrupt, whole = _pages(tmp_path / "a.zip", bytes(content))
    assert (secret.record, secret.html, secret.failure) == (0, b"", "a.html is encrypted")
    assert corrupt.record == 1
    assert corrupt.failure is not None
    assert corrupt.failure.startswith("b.html can't be read: Bad CRC-32")
    assert (whole.record, whole.html) == (2, b"<p>c")


def test_pages_in_a_zip_that_are_not_read_are_named(tmp_path: Path) -> None:
    (page,) = _pages(tmp_path / "a.zip", _zip({"notes.txt": b"", "pages.jsonl": b"{}"}))
    assert (page.record, page.failure) == (
        1,
        "only HTML files are read from a zip archive, and pages.jsonl is none: unpack it",
    )


def test_a_member_without_a_name_is_no_page(tmp_path: Path) -> None:
    content = _zip({"a": b"", "b.html": b"<p>b"})
    place = content.index(b"PK\x01\x02")
    nameless = content[: place + 28] + b"\0\0\1\0" + content[place + 32 :]
    (page,) = _pages(tmp_path / "a.zip", nameless)
    assert (page.record, page.html) == (1, b"<p>b")


@pytest.mark.parametrize("content", [_zip({"a.html": _BODY})[:-30], b"", b"no zip", _zip({"a.html": _BODY})[10:]])
def test_a_damaged_zip_is_one_failed_page(tmp_path: Path, content: bytes) -> None:
    *_, page = _pages(tmp_path / "a.zip", content)
    assert page.failure is not None


@pytest.mark.parametrize("suffix", _COMPRESS)
@pytest.mark.parametrize("each", [True, False])
def test_html_responses_of_a_warc_are_pages(tmp_path: Path, suffix: str, each: bool) -> None:
    compress = _COMPRESS[suffix]
    records = [
        _record(0, kind="warcinfo"),
        _record(1, kind="request"),
        _record(2, http="Content-Type: text/html; charset=UTF-8\r\nServer: x"),
        _record(3, http="Content-Type: image/png"),
        _record(4, http="content-type: application/xhtml+xml"),
        _record(5, http="Server: names no type"),
    ]
    content = b"".join(map(compress, records)) if each else compress(b"".join(records))
    first, second, third = _pages(tmp_path / f"a.warc{suffix}", content)
    assert first == Page(
        f"a.warc{suffix}",
        2,
        "<urn:uuid:2>",
        "http://example.org/2",
        metadata='{"content_type": "text/html; charset=UTF-8", "http_status": 200, '
        '"warc_date": "2024-05-06T07:08:09Z"}',
        html=_BODY,
        charset="UTF-8",
    )
    assert (second.record, second.html, second.charset) == (4, _BODY, None)
    assert (third.record, json.loads(third.metadata)) == (5, {"http_status": 200, "warc_date": "2024-05-06T07:08:09Z"})


_GZIP, _CHUNKED = "Content-Encoding: gzip", "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("body", "http"),
    [
        (_chunked(_BODY), _CHUNKED),
        (_gzip(_BODY), _GZIP),
        (_gzip(_BODY[:99]) + _gzip(_BODY[99:]), "content-encoding: X-GZIP"),
        (_brotli(_BODY), "Content-Encoding: br"),
        (_zstd(_BODY), "Content-Encoding: zstd"),
        (zlib.compress(_BODY), "Content-Encoding: deflate"),
        (_deflate_without_header(_BODY), "Content-Encoding: deflate"),
        (_chunked(_gzip(_BODY)), f"{_CHUNKED}\r\n{_GZIP}"),
        (_gzip(_brotli(_BODY)), "Content-Encoding: br, gzip"),
        (_BODY, f"{_CHUNKED}\r\n{_GZIP}"),
        (_BODY, "Content-Encoding: br, deflate, zstd, unheard-of"),
    ],
)
def test_bodies_are_decoded_whether_or_not_the_crawler_did_so(tmp_path: Path, body: bytes, http: str) -> None:
    http = f"Content-Type: text/html\r\n{http}"
    first, second = _pages(tmp_path / "a.warc", _record(0, body, http) + _record(1))
    assert (first.html, first.failure) == (_BODY, None)
    assert (second.record, second.html) == (1, _BODY)


@given(body=st.binary(min_size=1), size=st.integers(1, 50))
@settings(deadline=None)
def test_chunks_are_joined(tmp_path_factory: pytest.TempPathFactory, body: bytes, size: int) -> None:
    path = tmp_path_factory.getbasetemp() / "chunks.warc"
    (page,) = _pages(path, _record(0, _chunked(body, size), f"Content-Type: text/html\r\n{_CHUNKED}"))
    assert page.html == body


def test_of_a_cut_body_the_beginning_is_kept(tmp_path: Path) -> None:
    body = _chunked(_gzip(_BODY))[:-60]
    first, second = _pages(
        tmp_path / "a.warc", _record(0, body, f"Content-Type: text/html\r\n{_CHUNKED}\r\n{_GZIP}") + _record(1)
    )
    assert isinstance(first.html, bytes)
    assert _BODY.startswith(first.html)
    assert len(first.html) > 20
    assert second.html == _BODY


@pytest.mark.parametrize(("compress", "http"), [(_gzip, "gzip"), (_brotli, "br"), (_zstd, "zstd"), (bytes, "identity")])
def test_a_body_over_the_limit_is_not_decoded_to_its_end(
    tmp_path: Path, compress: Callable[[bytes], bytes], http: str
) -> None:
    http = f"Content-Type: text/html\r\nContent-Encoding: {http}"
    bomb, other = _pages(tmp_path / "a.warc", _record(0, compress(bytes(5_000_000)), http) + _record(1), limit=1000)
    assert (len(bomb.html), bomb.failure) == (1001, None)
    assert other.html == _BODY


@pytest.mark.parametrize("suffix", _COMPRESS)
def test_a_cut_warc_gives_what_is_there_and_one_failed_page(tmp_path: Path, suffix: str) -> None:
    content = b"".join(_COMPRESS[suffix](_record(number)) for number in range(3))
    last = len(_COMPRESS[suffix](_record(2)))
    *pages, damage = _pages(tmp_path / f"a.warc{suffix}", content[: -last // 3])
    assert [page.record for page in pages[:2]] == [0, 1]
    assert [page.html for page in pages[:2]] == [_BODY, _BODY]
    assert all(page.failure is None for page in pages)
    assert damage.failure is not None
    assert damage.failure.startswith(f"a.warc{suffix} can't be read beyond record 2: ")


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b"no archive " * 100, 0),
        (_record(0) + b"garbage\r\n" * 9 + _record(1), 1),
        (_record(0) + _record(1).replace(b"HTTP/1.1 200", b"nonsense"), 1),
    ],
)
def test_what_is_no_warc_or_no_response_is_a_failed_page(tmp_path: Path, content: bytes, read: int) -> None:
    *pages, damage = _pages(tmp_path / "a.warc", content)
    assert [page.html for page in pages] == [_BODY] * read
    assert damage.failure is not None


@pytest.mark.parametrize("charset", ["shift_jis", '"Shift_JIS"'])
def test_the_encoding_of_http_goes_before_the_pages_own(tmp_path: Path, charset: str) -> None:
    body = '<meta charset="koi8-r"><p>日本語のページです'.encode("shift_jis")
    (page,) = _pages(tmp_path / "a.warc", _record(0, body, f"Content-Type: text/html; charset={charset}"))
    decoded = decode_page(page.html, _LARGE, page.charset)
    assert isinstance(decoded, str)
    assert decoded.endswith("日本語のページです")
    request = PageRequest(page.html, page.url, HtmlToMarkdownConfig(), page.charset)
    assert extract_page(request).text.strip() == "日本語のページです"
    assert extract_page(replace(request, charset="no-such-encoding")) == extract_page(replace(request, charset=None))


def test_a_byte_order_mark_goes_before_the_encoding_of_http() -> None:
    assert decode_page("\ufeff<p>é".encode(), _LARGE, "koi8-r") == "<p>é"


@pytest.mark.parametrize("parts", [2, 3, 50])
@pytest.mark.parametrize("name", ["a.zip", "a.warc", "a.warc.gz", "a.warc.zst"])
def test_slices_of_an_archive_give_what_the_whole_gives(tmp_path: Path, name: str, parts: int) -> None:
    path = tmp_path / name
    bodies = [_BODY * (1 + number % 4) for number in range(20)]
    if name == "a.zip":
        whole = _pages(path, _zip({f"{number}.html": body for number, body in enumerate(bodies)}))
    else:
        compress = _COMPRESS.get(path.suffix, bytes)
        whole = _pages(path, b"".join(compress(_record(number, body)) for number, body in enumerate(bodies)))
    assert [page.html for page in whole] == bodies
    (file,) = raw_html(path).files
    slices = slices_of(file, parts)
    assert 1 < len(slices) <= parts
    assert [page for piece in slices for page in read_pages(piece, max_page_bytes=_LARGE)] == whole


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_warc_that_is_compressed_as_a_whole_is_cut_nowhere(tmp_path: Path, suffix: str) -> None:
    records = b"".join(_record(number, random.Random(number).randbytes(9000)) for number in range(30))
    _pages(path := tmp_path / f"a.warc{suffix}", _COMPRESS[suffix](records))
    (file,) = raw_html(path).files
    assert slices_of(file, 5) == [PageSlice(file)]


@pytest.mark.parametrize("name", ["a.zip", "a.warc"])
def test_an_archives_name_is_no_part_of_its_pages(tmp_path: Path, name: str) -> None:
    content = _zip({"x.html": _BODY, "y.jsonl": b""}) if name == "a.zip" else _record(0) + b"garbage"
    first = _pages(tmp_path / name, content)
    shutil.copy(tmp_path / name, tmp_path / f"b{name}")
    (file,) = raw_html(tmp_path / f"b{name}").files
    second = list(read_pages(PageSlice(file), max_page_bytes=_LARGE))
    assert [replace(page, file="", failure=None) for page in first] == [
        replace(page, file="", failure=None) for page in second
    ]


@given(data=st.data())
@settings(deadline=None)
def test_damage_anywhere_raises_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["a.zip", "a.warc", "a.warc.gz", "a.warc.zst"]))
    http = f"Content-Type: text/html\r\n{_CHUNKED}\r\n{_GZIP}"
    warc = [_record(0, _chunked(_gzip(_BODY)), http), _record(1)]
    compress = _COMPRESS[Path(name).suffix] if name != "a.zip" and name != "a.warc" else bytes
    content = bytearray(_zip({"a.html": _BODY, "b.html": _BODY}) if name == "a.zip" else b"".join(map(compress, warc)))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / name
    pages = _pages(path, bytes(content[: data.draw(st.integers(0, len(content)))]))
    assert all(page.failure is None or not page.html for page in pages)
    (file,) = raw_html(path).files
    assert slices_of(file, 3)
