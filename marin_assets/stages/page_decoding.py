"""From a page's bytes to its HTML as text, or the reason why they are none.

Belongs here: what must be known before any HTML parser sees the page. Does not: what the HTML says.
"""

import codecs
import re
import string
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

_MAGIC = {
    b"%PDF-": "a PDF",
    b"\x89PNG\r\n\x1a\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF87a": "a GIF picture",
    b"GIF89a": "a GIF picture",
    b"RIFF": "a RIFF container (WebP, WAV or AVI)",
    b"\x1f\x8b": "gzip data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"PK\x03\x04": "a zip archive or office document",
    b"PK\x05\x06": "an empty zip archive",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"\x7fELF": "a program",
    b"wOFF": "a font",
    b"wOF2": "a font",
    b"OggS": "Ogg media",
    b"ID3": "MP3 audio",
    b"{\\rtf": "an RTF document",
}
# UTF-32 before UTF-16, whose little-endian mark it begins with.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_ZEROS = {
    "utf-32-le": (False, True, True, True),
    "utf-32-be": (True, True, True, False),
    "utf-16-le": (False, True, False, True),
    "utf-16-be": (True, False, True, False),
}
"""Which of four bytes are zeros in ASCII text, by encoding."""
_PRESCAN_BYTES = 4096
_DECLARED = re.compile(rb"""<(?:meta|\?xml)\b[^>]*?\b(?:charset|encoding)\s*=\s*["']?\s*([\w.:\-]+)""", re.IGNORECASE)
# The WHATWG Encoding Standard reads these labels as their supersets, which Python's codecs keep apart.
_SUPERSETS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-11": "cp874",
    # A page that could be read so far as to find its declaration is not UTF-16.
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
_NOT_ASCII = re.compile(rb"[\x00-\x7f]{0,8}(?:[\x80-\xff][\x00-\x7f]{0,8})+")
"""Text around bytes above ASCII: all that says anything of an encoding, without most markup and scripts."""
_SAMPLE_RUNS = 2000
_TAG = re.compile(r"<[a-zA-Z!/?]")
_SPACE = (string.whitespace + "\0").encode()
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATORS_TO_SPACES = bytes.maketrans(b"\v\f\x1c\x1d\x1e\x1f", b"      ")
"""Control characters that separate words."""
_NOT_IN_XML = bytes([*range(9), *range(0x0E, 0x1C)])
"""Bytes of the characters that show nothing and that no XML tree can hold (XML 1.0 §2.2)."""
_NOT_IN_XML_EITHER = ("\ufffe".encode(), "\uffff".encode())
_LAST_CODE_POINT = 0x10FFFF
_NUMERIC_REFERENCE = re.compile("&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")


class Refusal(StrEnum):
    """Why a page is given to no parser. The values are those of a row's `status`."""

    empty = "empty"
    not_html = "not_html"
    too_large = "too_large"


@dataclass(frozen=True)
class Refused:
    """A page that is given to no parser."""

    refusal: Refusal
    reason: str | None


def decode_page(page: bytes | str, max_page_bytes: int, charset: str | None = None) -> str | Refused:
    """A page's HTML, of characters that a tree can hold, or why it is refused.

    Bytes that the page's encoding does not have become U+FFFD; none are an error. Control characters are left out,
    or become spaces where they separate words.

    Args:
        charset: the encoding that HTTP declared, which goes before the page's own declaration, but not before its
            byte order mark.
    """
    size = len(page) if isinstance(page, bytes) or page.isascii() else len(page.encode("utf-8", "surrogatepass"))
    if size > max_page_bytes:
        return Refused(Refusal.too_large, f"the page is longer than {max_page_bytes:,} bytes")
    if isinstance(page, bytes):
        if not page.strip(_SPACE):
            return Refused(Refusal.empty, None)
        kind = _kind(page)
        if kind is not None:
            return Refused(Refusal.not_html, f"the page is {kind}")
        page = _decode(page, charset)
    text = _NUMERIC_REFERENCE.sub(_valid_reference, _without_control_characters(page).removeprefix("\ufeff"))
    if not text or text.isspace():
        return Refused(Refusal.empty, None)
    kind = _kind(text[:16].encode("latin-1", "replace"))
    if kind is not None:
        return Refused(Refusal.not_html, f"the page is {kind}")
    if _TAG.search(text) is None:
        return Refused(Refusal.not_html, "the page has no HTML tag")
    return text


def _without_control_characters(text: str) -> str:
    """The text without what no tree can hold, surrogates replaced. Works on bytes, many times faster than patterns."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE.sub("\ufffd", text)
        encoded = text.encode()
    cleaned = encoded.translate(_SEPARATORS_TO_SPACES, _NOT_IN_XML)
    for character in _NOT_IN_XML_EITHER:
        cleaned = cleaned.replace(character, b"")
    return text if cleaned == encoded else cleaned.decode()


def _valid_reference(reference: re.Match[str]) -> str:
    """A numeric reference as it is, or what HTML (§13.2.5.80) makes of one that no tree can hold."""
    digits = reference[1] or reference[2].lstrip("0")
    code = int(reference[1], 16) if reference[1] else int(digits[:8] or 0)
    if code == 0 or 0xD800 <= code <= 0xDFFF or code > _LAST_CODE_POINT:
        return "\ufffd"
    if 0x80 <= code <= 0x9F:
        return bytes([code]).decode("cp1252", "ignore")
    character = _without_control_characters(chr(code))
    return reference[0] if character == chr(code) else character


def _kind(page: bytes) -> str | None:
    start = page.lstrip(b"\r\n\t ")
    return next((kind for magic, kind in _MAGIC.items() if page.startswith(magic) or start.startswith(magic)), None)


def _decode(page: bytes, charset: str | None) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if page.startswith(mark):
            return page[len(mark) :].decode(encoding, "replace")
    wide = _encoding_by_zeros(page)
    if wide is not None:
        return page.decode(wide, "replace")
    declared = _codec_of_label(charset) or _declared_encoding(page, _PRESCAN_BYTES)
    utf8 = _decode_utf8(page)
    # Bytes above ASCII that are valid UTF-8 are hardly ever anything else, whatever the page declares.
    if utf8 is not None and (declared is None or not utf8.isascii()):
        return utf8
    # Some pages declare it behind long scripts, where browsers do not look.
    declared = declared or _declared_encoding(page, len(page))
    if declared is None or (declared == "utf-8" and _is_damaged_utf8(page)):
        declared = _detected_encoding(page)
    return page.decode(declared, "replace")


def _decode_utf8(page: bytes) -> str | None:
    """The page as UTF-8 if it is that from its start on; a character that the page's end cuts off is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(page, final=False)
    except UnicodeDecodeError:
        return None


def _is_damaged_utf8(page: bytes) -> bool:
    """Whether most of the characters above ASCII are not UTF-8, so that a declaration of it must be wrong."""
    text = page.decode("utf-8", "replace")
    return text.count("\ufffd") > (len(text) - len(text.encode("ascii", "ignore"))) / 2


def _encoding_by_zeros(page: bytes) -> str | None:
    """UTF-16 and UTF-32 show by their zeros: markup is ASCII, so at least every other byte of it is one."""
    sample = page[:_PRESCAN_BYTES]
    if not sample.count(0):
        return None
    zeros = [sample[place::4].count(0) / max(1, len(sample) // 4) for place in range(4)]
    for encoding, has_zeros in _ZEROS.items():
        if all(share > 0.3 if expected else share < 0.1 for share, expected in zip(zeros, has_zeros, strict=True)):
            return encoding
    return None


def _declared_encoding(page: bytes, within: int) -> str | None:
    """The encoding that the page names in its first bytes, by the WHATWG's table of labels; None for other names."""
    declaration = _DECLARED.search(page, 0, within)
    return None if declaration is None else _codec_of_label(declaration[1].decode("ascii", "replace"))


def _codec_of_label(label: str | None) -> str | None:
    from resiliparse.parse.encoding import map_encoding_to_html5

    return None if label is None else _python_codec(map_encoding_to_html5(label, fallback_utf8=False))


def _detected_encoding(page: bytes) -> str:
    """The most likely encoding of a page that is not UTF-8."""
    from charset_normalizer import from_bytes
    from resiliparse.parse.encoding import detect_encoding

    sample = b" ".join(islice((run[0] for run in _NOT_ASCII.finditer(page)), _SAMPLE_RUNS)) or page[:_PRESCAN_BYTES]
    detected = _python_codec(detect_encoding(sample, max_len=len(sample)))
    if detected is not None and detected != "utf-8":
        return detected
    match = from_bytes(sample).best()
    return "cp1252" if match is None or match.encoding in {"ascii", "utf_8"} else match.encoding


def _python_codec(encoding: str | None) -> str | None:
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        return None
    return _SUPERSETS.get(name, name)
