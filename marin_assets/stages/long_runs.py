"""Token ids of a very long text, in memory that does not grow with it but for the ids.

Belongs here: cutting where even `text_pieces` finds no place, as inside a run of nothing but letters. Does not:
encoding.

A text is cut in one of two kinds of place, and each keeps the ids of the whole.

*Between two pre-tokens.* GPT-2's expression matches from left to right and never looks behind, and a match depends on
its own characters and the one after them. So of the matches in the first part of a text, all but the last are matches
in the whole text, and what follows them matches as if the text began there. Only white space at the end may match
otherwise when nothing follows, so what is left of the cut must be seen to match as before.

*Inside a pre-token, at a seam.* Byte-pair encoding merges the pair of neighbours of the lowest rank, the leftmost
first, again and again. Call a boundary between two bytes open if no merge crosses it. While no merge has crossed it,
what happens on one side does not depend on the other: the candidates on each side, and the order in which they are
taken, are the same as if that side were alone, because ranks and positions compare as before. So the encoding of a
text has a boundary at b exactly if b stays open, and then it is the encoding of what is left of b followed by that of
what is right of b. Now let t and u be the tokens on both sides of b. The boundaries at their other ends are open as
well, so by the same argument the merges inside t and u, and the order among them and any candidate that crosses b,
are those of encoding t and u alone. Hence: *a sequence of tokens is the encoding of its bytes exactly if each pair of
neighbours is the encoding of its own bytes.* (Van Antwerpen and Neubeck prove it for vocabularies in which every
token can be merged in rank order: "So many tokens, so little time", GitHub, 2024. The argument above needs no such
order.) Both sides of a seam were encoded, so only the pair at the seam is left to check, and encoding a few tokens
around it does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.int32]

_CANDIDATES = 8
# Characters of the same run that must follow a seam: a run of white space gives its last character to what follows,
# and an apostrophe before a letter would begin a contraction at the start of a part.
_RUN_GOES_ON = 3


@dataclass(frozen=True)
class LongRunEncoder:
    """Encodes texts of any length with GPT-2's pre-tokenizer and a byte-level BPE that follows its merges."""

    encode: Callable[[str], TokenIds]
    """Encodes a text whole."""
    pre_token_starts: Callable[[str], list[int]]
    """Where the pre-tokens of a text start, in characters."""
    token_bytes: npt.NDArray[np.int64]
    """Length of each token, by its id."""
    limit: int
    """Characters that are encoded together."""
    margin: int = 32
    """Tokens at the end of a part that are not trusted, since more text follows. Only speed depends on it: with fewer,
    more seams fail their check."""

    def token_ids(self, text: str) -> TokenIds:
        """The ids of the whole text. Where a run has no place for a seam, it is encoded whole indeed."""
        parts: list[TokenIds] = []
        start = 0
        while len(text) - start > self.limit:
            part = text[start : start + self.limit]
            cut = self._last_cut(part)
            if cut:
                parts.append(self.encode(part[:cut]))
                start += cut
                continue
            ids = self.encode(part)
            seam = self._find_seam(text[start : start + 2 * self.limit], ids)
            if seam is None:
                return self.encode(text)
            parts.append(ids[: seam.tokens])
            start += seam.characters
        return np.concatenate([*parts, self.encode(text[start:])])

    def _last_cut(self, part: str) -> int:
        """The last start of a pre-token that is a place to cut; 0 if the part is one pre-token."""
        starts = self.pre_token_starts(part)
        cuts = (n for n in range(len(starts) - 1, 0, -1) if self.pre_token_starts(part[: starts[n]]) == starts[:n])
        return starts[next(cuts, 0)]

    def _find_seam(self, text: str, ids: TokenIds) -> _Seam | None:
        """A seam in the first `limit` characters of the text, which are part of one run and have these ids."""
        for seam in self._candidates(text[: self.limit], ids):
            # The next part, as it will be encoded.
            following = text[seam.characters : seam.characters + self.limit]
            if self._keeps_ids(text, seam, ids, self.encode(following)):
                return seam
        return None

    def _candidates(self, part: str, ids: TokenIds) -> Iterator[_Seam]:
        """Token boundaries that lie between two characters, from the margin backwards."""
        content = part.encode()
        ends = np.cumsum(self.token_bytes[ids])
        longest = len(part[:-_RUN_GOES_ON].encode())
        found = 0
        for tokens in range(max(1, len(ids) - self.margin), 0, -1):
            end = int(ends[tokens - 1])
            if end <= longest and _is_between_characters(content, end):
                yield _Seam(tokens, len(content[:end].decode()), end)
                found += 1
            if found == _CANDIDATES:
                return

    def _keeps_ids(self, text: str, seam: _Seam, left: TokenIds, right: TokenIds) -> bool:
        """Whether the tokens around the seam are those of their text when it is encoded across the seam."""
        content = text.encode()
        ends = seam.bytes - np.cumsum(self.token_bytes[left[: seam.tokens][::-1]])
        before = next(n for n, start in enumerate(ends, 1) if _is_between_characters(content, int(start)))
        starts = seam.bytes + np.cumsum(self.token_bytes[right])
        after = next(n for n, end in enumerate(starts, 1) if _is_between_characters(content, int(end)))
        around = np.concatenate([left[seam.tokens - before : seam.tokens], right[:after]])
        window = content[int(ends[before - 1]) : int(starts[after - 1])].decode()
        return np.array_equal(self.encode(window), around)


@dataclass(frozen=True)
class _Seam:
    """A place to cut; how much of each kind is before it."""

    tokens: int
    characters: int
    bytes: int


def _is_between_characters(content: bytes, position: int) -> bool:
    return position == len(content) or content[position] & 0xC0 != 0x80
