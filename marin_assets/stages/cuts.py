"""Cutting spans out of one Markdown text.

Belongs here: which bytes go with a cut. Does not: where spans come from, or whether they are valid.

The result is the text's bytes without the spans, and without what a cut leaves behind:

- A cut within a line takes the span's bytes and nothing else.
- A cut that leaves its lines blank takes these lines. Between the two lines that are left one of the gaps around the
  cut stays as it was: the one with the most line breaks, the first of several. So what a blank line separated stays
  so, and lines of one paragraph stay together. If all gaps are single line breaks and whole blocks went from between
  two blocks, the first and the last gap stay: the two must not become one paragraph.
- At the beginning of the text the gap before the cut stays, at its end the gap behind the cut.
- Inside a fenced code block a cut takes its lines and no blank line.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marin_assets.stages.paragraphs import FENCE, WHITE_SPACE, split_blocks

Span = tuple[int, int]


@dataclass(frozen=True)
class DocumentBlocks:
    """The blocks of one text, in order."""

    starts: Sequence[int]
    kinds: Sequence[int]

    def index(self, position: int) -> int:
        """The block that holds the byte at `position`, which must not be white space."""
        return bisect_right(self.starts, position) - 1


_WHITE_SPACES = tuple(character.encode() for character in WHITE_SPACE)
_BLANK = re.compile(b"(?:" + b"|".join(map(re.escape, _WHITE_SPACES)) + b")*")


def blocks_by_document(texts: Sequence[bytes]) -> list[DocumentBlocks]:
    """The blocks of each text."""
    blocks = split_blocks(texts)
    bounds = np.searchsorted(blocks.documents, np.arange(len(texts) + 1)).tolist()
    starts, kinds = blocks.starts.tolist(), blocks.kinds.tolist()
    return [DocumentBlocks(starts[first:last], kinds[first:last]) for first, last in pairwise(bounds)]


def remove_whole_blocks(text: bytes, spans: Sequence[Span]) -> bytes | None:
    """What `remove_spans` gives, only faster; None where it can't tell.

    It can if one empty line stands before and behind each span, and no fence in the text.
    """
    # One byte is looked for many times as fast as three.
    if (b"`" in text and b"```" in text) or (b"~" in text and b"~~~" in text):
        return None
    size = len(text)
    kept: list[bytes] = []
    position = 0
    for start, end in spans:
        if start > position:
            gap = start - 2
            if gap <= position or text[gap:start] != b"\n\n" or text.endswith(_WHITE_SPACES, position, gap):
                return None
            kept.append(text[position:start])
        elif start < position:
            return None
        if end == size:
            return b"".join(kept)[:-2]
        position = end + 2
        if position == size or text[end:position] != b"\n\n" or text.startswith(_WHITE_SPACES, position):
            return None
    kept.append(text[position:])
    return b"".join(kept)


def remove_spans(text: bytes, spans: Sequence[Span], blocks: DocumentBlocks) -> bytes:
    """Cut sorted, disjoint, half-open byte spans that lie on character borders out of a UTF-8 text."""
    kept: list[bytes] = []
    position = 0
    for cut in _cuts(text, spans):
        before = _end_of_text(text, position, cut[0][0])
        after = _start_of_text(text, cut[-1][1])
        kept += [text[position:before], _what_stays(text, before, cut, after, blocks)]
        position = after
    kept.append(text[position:])
    return b"".join(kept)


def _cuts(text: bytes, spans: Sequence[Span]) -> list[list[Span]]:
    """Spans with nothing but white space between them, together."""
    cuts: list[list[Span]] = []
    for start, end in spans:
        if cuts and _BLANK.fullmatch(text, cuts[-1][-1][1], start):
            cuts[-1].append((start, end))
        else:
            cuts.append([(start, end)])
    return cuts


def _what_stays(text: bytes, before: int, cut: list[Span], after: int, blocks: DocumentBlocks) -> bytes:
    """What stays of the text between `before` and `after`, which is white space but for the cut's spans."""
    at_start, at_end = before == 0, after == len(text)
    alone = len(cut) == 1 and not at_start and not at_end
    if (
        alone
        and text[before : cut[0][0]] == text[cut[0][1] : after] == b"\n\n"
        and blocks.index(before - 1) != blocks.index(after)
    ):  # nearly all cuts are so: what follows would come to the same, more slowly
        return b"\n\n"
    edges = [before, *(edge for span in cut for edge in span), after]
    pieces = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    # Line breaks on both sides of a span are what it takes to leave its line blank.
    inner = pieces[at_start : len(pieces) - at_end]
    broken = [index for index, piece in enumerate(inner) if b"\n" in piece]
    if len(broken) + at_start + at_end < 2:
        return b"".join(pieces)
    tail, head = pieces[0][: pieces[0].rfind(b"\n") + 1], b""
    if not at_start:
        first = inner[broken[0]]
        tail = b"".join(inner[: broken[0]]) + first[: first.index(b"\n")]
    if at_end:
        head = pieces[-1][pieces[-1].find(b"\n") :] if b"\n" in pieces[-1] else b""
    else:
        last = inner[broken[-1]]
        head = last[last.rindex(b"\n") + 1 :] + b"".join(inner[broken[-1] + 1 :])
    if at_start or at_end:
        return tail + head
    gaps = [inner[index] for index in broken]
    gaps = [gap[gap.index(b"\n") : gap.rindex(b"\n") + 1] for gap in gaps]
    return tail + _gap(gaps, blocks.index(before - 1), blocks.index(after), blocks) + head


def _gap(gaps: list[bytes], left: int, right: int, blocks: DocumentBlocks) -> bytes:
    """What stays between two lines of the blocks `left` and `right`, out of the gaps between the lines that go."""
    if left == right and blocks.kinds[left] == FENCE:
        return b"\n" + b"".join(gap[1:] for gap in gaps)
    widest = max(gaps, key=lambda gap: gap.count(b"\n"))
    if widest.count(b"\n") == 1 and right - left > 1:
        return gaps[0] + gaps[-1]
    return widest


def _end_of_text(text: bytes, floor: int, position: int) -> int:
    """Where the white space begins that ends at `position`."""
    while text.endswith(_WHITE_SPACES, floor, position):
        position -= 1
        while text[position] & 0xC0 == 0x80:
            position -= 1
    return position


def _start_of_text(text: bytes, position: int) -> int:
    """Where the white space ends that begins at `position`."""
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position
