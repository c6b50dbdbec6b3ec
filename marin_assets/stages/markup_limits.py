"""Bounds on markup that parsers and extractors need: how deep elements nest, how many attributes one has.

libxml2 stops at 256 levels, html-to-markdown and Python's recursion somewhat later; resiliparse is quadratic in
nesting, it and Lexbor in attributes. Hardly a page is beyond the bounds: whether one may be is seen by counting bytes,
well under a millisecond for a page of ordinary length. Only then are its tags read one by one.

Belongs here: bounds on the page's text before any parser. Does not: the size of pages (`page_decoding`), budgets.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marin_assets.stages.markdown_blocks import INLINE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_LEVELS = 200
"""Deeper elements are unwrapped: their text stays, in the deepest element that is left. Paragraphs, list items and the
like, which end each other, are kept even there."""
MOST_ATTRIBUTES = 200
"""Of one element; the rest is left out."""
MOST_ATTRIBUTE_CHARACTERS = 8192
"""A longer attribute is left out: it is a picture or data, and copied by every step of an extraction."""
_MOST_TAG_BYTES = 65_536
"""A tag may be this long without a closer look: some 20,000 attributes take Lexbor a tenth of a second."""

_VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
_CLOSED_BY: dict[str, frozenset[str]] = {
    "p": frozenset({"p"}),
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "tr": frozenset({"tr", "td", "th", "p"}),
    "tbody": frozenset({"tbody", "thead", "tr", "td", "th", "p"}),
    "tfoot": frozenset({"tbody", "thead", "tr", "td", "th", "p"}),
    "option": frozenset({"option"}),
    "optgroup": frozenset({"option", "optgroup"}),
}
"""Start tags, and the open elements that each ends (HTML §13.1.2.4)."""
_LEVELS = {"table": 4, "ul": 2, "ol": 2, "dl": 2, "menu": 2, "dir": 2, "object": 2}
"""Levels that come with an element of the name: its own, and those of the parts that end each other."""
_DRAWN = ("circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "stop", "use")
"""Elements of SVG that nest only when they do not end themselves, as in `<path/>`."""
_NAME_BYTES = 4
_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]*+))?"""
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<raw>script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</(?P=raw)\s*>|\Z)"
    r"|</(?P<end>[a-z][^\s/>]*+)[^>]*+>?"
    rf"|<(?P<start>[a-z][^\s/>]*+)(?P<attributes>(?:[\s/]++|{_ATTRIBUTE})*+)>?",
    re.DOTALL | re.IGNORECASE,
)
"""A comment, an element of raw text, an end tag, or a start tag, as HTML's tokenizer reads them (HTML §13.2.5)."""
_ATTRIBUTES = re.compile(_ATTRIBUTE)


@dataclass(frozen=True)
class BoundedMarkup:
    """A page within the bounds, and how many start tags it has."""

    html: str
    tags: int


def bound_markup(html: str) -> BoundedMarkup:
    """The page, unchanged if it is within the bounds.

    Markup that hides end tags from a count of bytes, in scripts for instance, may nest deeper. A page's budget bounds
    that too.
    """
    count = _count(html)
    if count.levels <= MOST_LEVELS and not count.has_long_tag:
        return BoundedMarkup(html, count.tags)
    return BoundedMarkup(_Bounds().apply(html), count.tags)


@dataclass(frozen=True)
class _Count:
    tags: int
    levels: int
    """No less than the deepest nesting."""
    has_long_tag: bool


def _count(html: str) -> _Count:
    """Count start tags and levels, and look for a long tag, from the bytes at each `<`.

    An element ends at the next end tag of its name or before, so elements of one name nest no deeper than its start
    tags ever outnumber the end tags after some place; the sum over all names bounds the whole. Names are told apart by
    their first letters.
    """
    import numpy as np

    encoded = html.encode("utf-8", "replace") + b">" + bytes(_NAME_BYTES + 1)
    data = np.frombuffer(encoded, np.uint8)
    places = np.flatnonzero(data == ord("<"))
    is_end = data[places + 1] == ord("/")
    names = _names(data, places + 1 + is_end)
    places, is_end, names = places[names > 0], is_end[names > 0], names[names > 0]
    starts = int((~is_end).sum())
    if not starts:
        return _Count(0, 0, has_long_tag=False)
    far = np.flatnonzero(np.diff(places, append=len(data)) > _MOST_TAG_BYTES)
    has_long_tag = any(_is_long_tag(encoded, place) for place in places[far].tolist())
    closes = np.flatnonzero(data == ord(">"))
    closes = closes[np.searchsorted(closes, places)]
    nests = (data[closes - 1] != ord("/")) | ~np.isin(names, _SHAPES)
    names, is_end = names[nests], is_end[nests]
    order = np.argsort(names, kind="stable")
    return _Count(starts, _levels(names[order], is_end[order]), has_long_tag)


def _is_long_tag(encoded: bytes, place: int) -> bool:
    """Whether a start tag is long; what stands there may as well be a script, or a tag and much text behind it."""
    markup = _MARKUP.match(encoded[place:].decode("utf-8", "replace"))
    return markup is not None and markup["start"] is not None and len(markup[0]) > _MOST_TAG_BYTES


def _levels(names: npt.NDArray[np.uint32], is_end: npt.NDArray[np.bool_]) -> int:
    """The sum over all names of the most levels that elements of it can have. Tags of one name stand together."""
    import numpy as np

    steps = 1 - 2 * is_end.astype(np.int64)
    firsts = np.flatnonzero(np.diff(names, prepend=0))
    name_index = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(names)))
    # Each name's balance begins far below the one before, so that the lowest so far never is another name's.
    balance = np.cumsum(steps)
    balance -= (balance - steps)[firsts][name_index] + name_index * (len(names) + 1)
    lowest_before = np.minimum.accumulate(balance - steps)
    most = np.maximum(np.maximum.reduceat(balance - lowest_before, firsts), 0)
    weights = [_WEIGHTS.get(name, 1) for name in names[firsts].tolist()]
    return int(np.dot(most, weights))


def _names(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp]) -> npt.NDArray[np.uint32]:
    """The first letters of the name at each place, in lower case, as one number; 0 where no name begins."""
    import numpy as np

    lower = np.frombuffer(_LOWER, np.uint8)
    letters = lower[data[starts]]
    letters[letters < ord("a")] = 0
    names = letters.astype(np.uint32)
    for offset in range(1, _NAME_BYTES):
        letters = np.where(letters > 0, lower[data[starts + offset]], 0)
        names = (names << np.uint32(8)) | letters
    return names


def _number(name: str) -> int:
    return int.from_bytes(name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"), "big")


_LOWER = bytes(ord(chr(byte).lower()) if chr(byte).isalnum() and byte < 128 else 0 for byte in range(256))
"""Letters in lower case and digits by byte; 0 for all others."""
_SHAPES = [_number(name) for name in _DRAWN]
_WEIGHTS = {
    **{_number(name): 0 for name in (*_VOID, *_CLOSED_BY)},
    **{_number(name): levels for name, levels in _LEVELS.items()},
}
"""Levels by the number of a name; 1 for those that are not here."""


class _Bounds:
    """Reads a page's tags one after the other, and leaves out those beyond the bounds."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._names: Counter[str] = Counter()
        """Open elements by name."""
        self._unwrapped: Counter[str] = Counter()
        """Start tags left out whose end tags are to come."""
        self._loose: Counter[str] = Counter()
        """Start tags below the last level that the next of their kind ends."""

    def apply(self, html: str) -> str:
        return _MARKUP.sub(self._bounded, html)

    def _bounded(self, match: re.Match[str]) -> str:
        tag: str = match[0]
        if match["end"] is not None:
            name = match["end"].lower()
            return tag if self._end(name) else _instead(name)
        if match["start"] is None:
            return tag
        name = match["start"].lower()
        if not self._start(name):
            return _instead(name)
        return tag if len(tag) <= MOST_ATTRIBUTE_CHARACTERS else _with_few_attributes(match)

    def _start(self, name: str) -> bool:
        if name in _VOID:
            return True
        ended = _CLOSED_BY.get(name, frozenset())
        while self._open and self._open[-1] in ended:
            self._names[self._open.pop()] -= 1
        if len(self._open) >= MOST_LEVELS:
            is_loose = name in _CLOSED_BY
            (self._loose if is_loose else self._unwrapped)[name] += 1
            return is_loose
        self._open.append(name)
        self._names[name] += 1
        return True

    def _end(self, name: str) -> bool:
        if self._unwrapped[name]:
            self._unwrapped[name] -= 1
            return False
        if self._loose[name]:
            self._loose[name] -= 1
            return True
        if self._names[name]:
            while True:
                inner = self._open.pop()
                self._names[inner] -= 1
                if inner == name:
                    break
        return True


def _instead(name: str) -> str:
    """What stands in place of a tag that is left out: blocks part words, other elements do not."""
    return "" if name in INLINE or name in {"span", "font"} else " "


def _with_few_attributes(match: re.Match[str]) -> str:
    kept: list[str] = []
    for attribute in _ATTRIBUTES.finditer(match["attributes"]):
        if len(kept) == MOST_ATTRIBUTES:
            break
        if attribute.end() - attribute.start() <= MOST_ATTRIBUTE_CHARACTERS:
            kept.append(attribute[0])
    return f"<{' '.join([match['start'], *kept])}>"
