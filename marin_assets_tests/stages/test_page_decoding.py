"""Bytes are read as the web reads them, and what is no page goes to no parser."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages.page_decoding import Refusal, Refused, decode_page

_LIMIT = 1 << 20
_RUSSIAN = "<p>Съешь же ещё этих мягких французских булок, да выпей чаю.</p>"
_FRENCH = "<p>Les élèves français étaient très contents d’être à l’école où ça sent bon.</p>"
_JAPANESE = "<p>これは日本語の文章です。文字コードの判定を確かめるために書きました。①</p>"
_KOREAN = "<p>이것은 인코딩 감지를 시험하기 위한 한국어 문장입니다. 오늘은 날씨가 좋습니다.</p>"


def _declaring(label: str, text: str) -> str:
    return f'<html><head><meta http-equiv=content-type content="text/html; charset={label}"></head>{text}</html>'


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("utf-8", "utf-8", _RUSSIAN),
        ("windows-1251", "cp1251", _RUSSIAN),
        ("koi8-r", "koi8-r", _RUSSIAN),
        ("iso-8859-1", "cp1252", _FRENCH),
        ("us-ascii", "cp1252", _FRENCH),
        ("shift_jis", "cp932", _JAPANESE),
        ("iso-2022-jp", "iso2022_jp_2", "<p>日本語</p>"),
        ("euc-kr", "cp949", _KOREAN),
        ("gb2312", "gb18030", "<p>这是𠀀</p>"),
        ("no-such-label", "cp1251", _RUSSIAN),
        ("utf-16", "utf-8", _RUSSIAN),
    ],
)
def test_a_declared_encoding_is_read_as_the_web_reads_the_label(label: str, codec: str, text: str) -> None:
    html = _declaring(label, text)
    assert decode_page(html.encode(codec), _LIMIT) == html


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_beats_the_declaration(codec: str) -> None:
    mark = codecs.lookup(codec).encode("\ufeff")[0]
    html = _declaring("windows-1251", _RUSSIAN)
    assert decode_page(mark + html.encode(codec), _LIMIT) == html


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1251", _RUSSIAN),
        ("cp1252", _FRENCH),
        ("cp932", _JAPANESE),
        ("cp949", _KOREAN),
        ("utf-16-le", "<p>Plain words, no mark</p>"),
        ("utf-16-be", "<p>Plain words, no mark</p>"),
    ],
)
def test_an_undeclared_encoding_is_detected(codec: str, text: str) -> None:
    assert decode_page(text.encode(codec), _LIMIT) == text


@pytest.mark.parametrize("label", ["windows-1252", "utf-8"])
def test_valid_utf8_is_utf8_whatever_it_declares(label: str) -> None:
    html = _declaring(label, _RUSSIAN)
    assert decode_page(html.encode(), _LIMIT) == html


def test_utf8_that_is_cut_inside_a_character_stays_utf8() -> None:
    html = f"<p>{'é' * 50}文"
    for cut in (1, 2):
        assert decode_page(html.encode()[:-cut], _LIMIT) == html[:-1]


def test_single_bad_bytes_in_declared_utf8_are_replaced() -> None:
    page = _declaring("utf-8", _RUSSIAN).encode() + b"\xff<p>"
    assert decode_page(page, _LIMIT) == _declaring("utf-8", _RUSSIAN) + "\ufffd<p>"


def test_a_wrong_declaration_of_utf8_is_overruled() -> None:
    html = _declaring("utf-8", _RUSSIAN)
    assert decode_page(html.encode("cp1251"), _LIMIT) == html


@pytest.mark.parametrize("page", [b"", b" \r\n\t\x00 ", "", "\u00a0\n", "\ufeff", b"\xef\xbb\xbf \n", b"\xc2\xa0"])
def test_white_space_is_an_empty_page(page: bytes | str) -> None:
    assert decode_page(page, _LIMIT) == Refused(Refusal.empty, None)


@pytest.mark.parametrize(
    ("page", "what"),
    [
        (b"%PDF-1.7 <p>", "a PDF"),
        (b"\x89PNG\r\n\x1a\n<p>", "a PNG picture"),
        (b"\xff\xd8\xff\xe0<p>", "a JPEG picture"),
        (b"GIF89a<p>", "a GIF picture"),
        (b"\x1f\x8b\x08<p>", "gzip data"),
        (b"PK\x03\x04<p>", "a zip archive or office document"),
        ("\n%PDF-1.4 <p>", "a PDF"),
    ],
)
def test_other_formats_are_known_by_their_first_bytes(page: bytes | str, what: str) -> None:
    assert decode_page(page, _LIMIT) == Refused(Refusal.not_html, f"the page is {what}")


@pytest.mark.parametrize("page", [b"plain text, 1 < 2", '{"json": [1, 2]}'])
def test_text_without_a_tag_is_not_html(page: bytes | str) -> None:
    assert decode_page(page, _LIMIT) == Refused(Refusal.not_html, "the page has no HTML tag")


def test_size_is_counted_in_bytes() -> None:
    assert decode_page("<p>éé", 7) == "<p>éé"
    assert decode_page("<p>éé", 6) == Refused(Refusal.too_large, "the page is longer than 6 bytes")
    assert decode_page(b"<p>xxxx", 6) == Refused(Refusal.too_large, "the page is longer than 6 bytes")


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300) | st.text(st.characters(), max_size=100))
def test_no_page_raises_and_every_text_is_utf8_without_nul(page: bytes | str) -> None:
    for whole in (page, b"<p>" + page if isinstance(page, bytes) else "<p>" + page):
        decoded = decode_page(whole, _LIMIT)
        if isinstance(decoded, str):
            decoded.encode("utf-8")
            assert "\0" not in decoded
