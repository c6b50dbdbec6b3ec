"""Where the blocks of a Markdown text begin and end.

Belongs here: what a paragraph is. Does not: which paragraphs repeat, and what is done about it.

A text is a sequence of lines, ended by LF only: normalized text has no CR, and the other characters that some
programs break lines at (U+2028, NEL, form feed) are white space within a line. A line is blank when it holds
nothing but Unicode white space. That is wider than CommonMark 0.31 §2.1 (spaces and tabs): a line with a lone
no-break space separates for the eye too. Each line that is not blank belongs to exactly one block:

- **fence**: a fenced code block (CommonMark §4.5), delimiters and blank lines included: one paragraph. Backticks or
  tildes, three or more; the info string of a backtick fence holds no backtick. It ends with a line of at least as
  many of the same character and nothing else. Unclosed, it runs to the last non-blank line of the document.
  Since containers (§5) are not parsed, a fence may also follow block quote and list markers on its line, or be
  indented by four columns or more. In a list item (behind a list marker, or indented so) it is closed by a line
  whose fence stands in the item: at most three columns right of the item's content, which begins at the opening
  fence, or three columns left of it if only the indent tells. Where no such line follows, it is no fence but text.
  In a quote it ends with the quote, before the first line without `>`.
- **heading**: an ATX heading (§4.2), a setext heading with its underline (§4.3), or a thematic break (§4.1). No
  paragraph, even when a text line stands right above or below it. Within a quote or a list item they are text.
  An underline below a run that begins with a list marker, `>`, `|` or an indent of four is none, as in CommonMark.
- **text**: any other run of lines; a list, a quote, a table, an indented code block too. A paragraph.

A block's bytes are whole lines: with indentation and trailing white space, without the last line's LF. Blocks do not
depend on one another: cut one out, with a blank line left in its place, and the others stay the same blocks. This is
why a fence does not end where its list item does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLANK, TEXT, HEADING, FENCE = range(4)

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""The characters with Unicode's property White_Space; `str.isspace` has four control characters more."""


def _byte_set(members: bytes) -> NDArray[np.bool_]:
    """A table that says of each byte whether it is a member."""
    table = np.zeros(256, dtype=bool)
    table[np.frombuffer(members, dtype=np.uint8)] = True
    return table


_LF = 10
_INNER_SPACES = _byte_set(b"\t\v\f\r ")
_UNICODE_SPACES = tuple(character.encode() for character in WHITE_SPACE if ord(character) > 127)
_UNICODE_SPACE_LEADS = _byte_set(bytes({space[0] for space in _UNICODE_SPACES}))
_MARKS = _byte_set(b"-=*_")
_HEADING_MARK_ENDS = _byte_set(b" \t\n")
_MARKS_AND_SPACES = _byte_set(b"-=*_ \t")

_UNDERLINE = re.compile(rb" {0,3}(?:=+|-+)[ \t]*")
_OPENING_FENCE = re.compile(
    rb"(?P<container>(?:[ \t]*(?:>|(?P<marker>[-+*]|[0-9]{1,9}[.)])(?=[ \t])))*[ \t]*)(?P<fence>`{3,}(?!.*`)|~{3,})",
    re.DOTALL,
)
_CLOSING_FENCE = re.compile(rb"(?P<container>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*")
_NO_HEADING_TEXT = re.compile(rb" {4}| {0,3}\t| {0,3}(?:[>|]|(?:[-+*]|[0-9]{1,9}[.)])(?:[ \t]|$))")


@dataclass(frozen=True)
class Blocks:
    """Blocks of a batch of documents, in order: four arrays of one length."""

    documents: NDArray[np.int64]
    """Index of the document in the batch."""
    starts: NDArray[np.int64]
    """First byte of the block, an offset into the document."""
    ends: NDArray[np.int64]
    """The byte after its last one."""
    kinds: NDArray[np.uint8]
    """`TEXT`, `HEADING` or `FENCE`."""

    def select(self, mask: NDArray[np.bool_]) -> Blocks:
        return Blocks(self.documents[mask], self.starts[mask], self.ends[mask], self.kinds[mask])

    @property
    def paragraphs(self) -> Blocks:
        """All but headings and thematic breaks."""
        return self.select(self.kinds != HEADING)


def split_blocks(documents: Sequence[bytes]) -> Blocks:
    """Find the blocks of each document. The documents are UTF-8."""
    lines = _Lines.of(documents)
    kinds = np.where(lines.blank, BLANK, TEXT).astype(np.uint8)
    begins = np.zeros(len(kinds), dtype=bool)  # the line begins a block though the line above has its kind
    _mark_fences(lines, kinds, begins)
    _mark_atx_headings(lines, kinds, begins)
    _mark_underlines_and_breaks(lines, kinds, begins)

    begins[lines.first_of_document[:-1]] = True
    begins[1:] |= kinds[1:] != kinds[:-1]
    ends = np.append(begins[1:], True)
    held = kinds != BLANK
    first = np.flatnonzero(begins & held)
    last = np.flatnonzero(ends & held)
    return lines.spans(first, last, kinds[first])


def split_lines(documents: Sequence[bytes]) -> Blocks:
    """Each non-blank line as a block of its own, whatever it is."""
    lines = _Lines.of(documents)
    held = np.flatnonzero(~lines.blank)
    return lines.spans(held, held, np.full(len(held), TEXT, dtype=np.uint8))


@dataclass(frozen=True)
class _Lines:
    """The lines of a batch of documents that were joined by LF, as offsets into the joined bytes."""

    joined: bytes
    document_starts: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    """Where the LF of each line stands."""
    texts: NDArray[np.int64]
    """The first byte that is not ASCII white space; the line's end if there is none."""
    blank: NDArray[np.bool_]
    first_of_document: NDArray[np.int64]
    """First line of each document, and the number of all lines."""

    @staticmethod
    def of(documents: Sequence[bytes]) -> _Lines:
        joined = b"\n".join(documents) + b"\n"
        lengths = np.fromiter((len(document) + 1 for document in documents), dtype=np.int64, count=len(documents))
        buffer = np.frombuffer(joined, dtype=np.uint8)
        ends = np.flatnonzero(buffer == _LF) if documents else np.zeros(0, dtype=np.int64)
        starts = np.concatenate(([0], ends[:-1] + 1)) if documents else ends
        document_starts = np.cumsum(lengths) - lengths
        texts = _skip_ascii_space(buffer, starts)
        blank = (texts == ends) | _only_unicode_space(joined, buffer, texts, ends)
        first_of_document = np.append(np.searchsorted(starts, document_starts), len(starts))
        return _Lines(joined, document_starts, starts, ends, texts, blank, first_of_document)

    def line(self, index: int) -> bytes:
        return self.joined[self.starts[index] : self.ends[index]]

    def document_of(self, line: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.first_of_document, line, side="right") - 1

    def spans(self, first: NDArray[np.int64], last: NDArray[np.int64], kinds: NDArray[np.uint8]) -> Blocks:
        """Blocks from the lines that they begin and end with."""
        documents = self.document_of(first)
        offsets = self.document_starts[documents]
        return Blocks(documents, self.starts[first] - offsets, self.ends[last] - offsets, kinds)


def _skip_ascii_space(buffer: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    positions = starts.copy()
    indented = np.flatnonzero(_INNER_SPACES[buffer[positions]])
    while len(indented):
        positions[indented] += 1
        indented = indented[_INNER_SPACES[buffer[positions[indented]]]]
    return positions


def _only_unicode_space(
    joined: bytes, buffer: NDArray[np.uint8], texts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Lines that hold white space beyond ASCII, and nothing else."""
    blank = np.zeros(len(texts), dtype=bool)
    for index in np.flatnonzero(_UNICODE_SPACE_LEADS[buffer[texts]]).tolist():
        if joined.startswith(_UNICODE_SPACES, texts[index]):
            blank[index] = not joined[texts[index] : ends[index]].decode().strip(WHITE_SPACE)
    return blank


def _mark_atx_headings(lines: _Lines, kinds: NDArray[np.uint8], begins: NDArray[np.bool_]) -> None:
    buffer = np.frombuffer(lines.joined, dtype=np.uint8)
    candidates = np.flatnonzero((buffer[lines.texts] == ord("#")) & (kinds == TEXT))
    after = lines.texts[candidates]
    for _ in range(6):
        after += buffer[after] == ord("#")
    candidates = candidates[_HEADING_MARK_ENDS[buffer[after]]]
    starts, texts = lines.starts[candidates], lines.texts[candidates]
    fits = np.ones(len(candidates), dtype=bool)
    for place in np.flatnonzero(starts < texts).tolist():
        fits[place] = lines.joined[starts[place] : texts[place]] in {b" ", b"  ", b"   "}
    candidates = candidates[fits]
    kinds[candidates] = HEADING
    begins[candidates] = True


def _mark_underlines_and_breaks(lines: _Lines, kinds: NDArray[np.uint8], begins: NDArray[np.bool_]) -> None:
    """Setext headings and thematic breaks, which both depend on the text above them."""
    buffer = np.frombuffer(lines.joined, dtype=np.uint8)
    likely = _MARKS[buffer[lines.texts]] & _MARKS_AND_SPACES[buffer[np.maximum(lines.ends - 1, 0)]]
    candidates = np.flatnonzero(likely & (kinds == TEXT))
    first_lines = lines.first_of_document[lines.document_of(candidates)].tolist()
    text_line, text_run = -1, -1  # a candidate that stayed text, and the first line of its run
    for index, first_line in zip(candidates.tolist(), first_lines, strict=True):
        line = lines.line(index)
        run = index
        while run > first_line and kinds[run - 1] == TEXT:
            if run - 1 == text_line:
                run = text_run
                break
            run -= 1
        if run < index and _UNDERLINE.fullmatch(line) and not _NO_HEADING_TEXT.match(lines.line(run)):
            kinds[run : index + 1] = HEADING
            begins[run] = True
        elif _is_thematic_break(line):
            kinds[index] = HEADING
            begins[index] = True
        else:
            text_line, text_run = index, run


def _is_thematic_break(line: bytes) -> bool:
    content = line.lstrip(b" ")
    marks = content.replace(b" ", b"").replace(b"\t", b"")
    alike = marks == marks[:1] * len(marks) and marks[:1] in (b"-", b"*", b"_")
    return len(line) - len(content) <= 3 and len(marks) >= 3 and alike


class _Fence(NamedTuple):
    """An open fence."""

    mark: int
    length: int
    quoted: bool
    in_item: bool
    columns: range
    """Where the closing fence may stand; in a quote anywhere."""

    @staticmethod
    def opened_by(line: bytes) -> _Fence | None:
        match = _OPENING_FENCE.match(line)
        if match is None:
            return None
        container, fence = match["container"], match["fence"]
        column, quoted = _columns(container), b">" in container
        in_item = not quoted and (match["marker"] is not None or column > 3)
        content = column if match["marker"] is not None else max(0, column - 3)
        return _Fence(fence[0], len(fence), quoted, in_item, range(content, (column if in_item else 0) + 4))

    def is_closed_by(self, line: bytes) -> bool:
        match = _CLOSING_FENCE.fullmatch(line)
        if match is None:
            return False
        container, fence = match["container"], match["fence"]
        stands_right = self.quoted or _columns(container) in self.columns
        return (
            stands_right and fence[0] == self.mark and len(fence) >= self.length and (b">" in container) == self.quoted
        )


def _columns(prefix: bytes) -> int:
    """Width of a line's beginning: a tab goes to the next multiple of four."""
    return len(prefix.expandtabs(4))


def _mark_fences(lines: _Lines, kinds: NDArray[np.uint8], begins: NDArray[np.bool_]) -> None:
    candidates = _lines_with_fence_marks(lines)
    documents = lines.document_of(np.array(candidates, dtype=np.int64))
    limits = lines.first_of_document[documents + 1].tolist()
    never_closed: set[tuple[int, _Fence]] = set()
    position = 0
    while position < len(candidates):
        first, limit = candidates[position], limits[position]
        fence = _Fence.opened_by(lines.line(first))
        last = None
        if fence is not None and fence.quoted:
            last = _last_line_in_quote(fence, lines, first, limit)
        elif fence is not None and (limit, fence) not in never_closed:
            following = map(candidates.__getitem__, range(position + 1, len(candidates)))
            closing = (line for line in takewhile(limit.__gt__, following) if fence.is_closed_by(lines.line(line)))
            last = next(closing, None if fence.in_item else _last_text_line(lines, limit))
            if last is None:  # nor will a later fence like this one be closed
                never_closed.add((limit, fence))
        if last is None:
            position += 1
        else:
            kinds[first : last + 1] = FENCE
            begins[first] = True
            position = bisect_right(candidates, last, lo=position)


def _last_line_in_quote(fence: _Fence, lines: _Lines, first: int, limit: int) -> int:
    for index in range(first + 1, limit):
        line = lines.line(index)
        if not line.lstrip(b" \t").startswith(b">"):
            return index - 1
        if fence.is_closed_by(line):
            return index
    return limit - 1


def _last_text_line(lines: _Lines, limit: int) -> int:
    """The last non-blank line before the line `limit`, in a document that has one."""
    while lines.blank[limit - 1]:
        limit -= 1
    return limit - 1


def _lines_with_fence_marks(lines: _Lines) -> list[int]:
    """Lines that hold three backticks or tildes in a row."""
    joined = lines.joined
    found = []
    for mark in (b"`", b"~"):
        position = joined.find(mark)  # for one byte many times as fast as for three
        while position >= 0:
            if joined.startswith(mark * 3, position):
                found.append(position)
                position = joined.index(b"\n", position)
            position = joined.find(mark, position + 1)
    marked: list[int] = np.unique(np.searchsorted(lines.ends, np.array(found, dtype=np.int64))).tolist()
    return marked
