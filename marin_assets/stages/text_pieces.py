"""Cuts a very long text into pieces that encode, one by one, to the tokens of the whole.

Belongs here: where GPT-2's pre-tokenizer is certain to cut. Does not: encoding.
"""

import re
from collections.abc import Iterator

# GPT-2's pre-tokenizer (Radford et al. 2019, `encoder.py`) splits a text, from left to right, with
#     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
# and byte-pair merges never cross a split. It splits for certain
#   - after a letter or digit that is followed by neither: a match with a letter (or digit) in it goes on with
#     letters (or digits) only. Python's `[^\W_]` is part of `\p{L}` and `\p{N}`.
#   - before white space that follows anything else: white space starts a match, or stands in one of its own.
# What is left of such a place matches as if the text ended there: a run of letters, digits or punctuation and a
# contraction end at what follows just as they do at the end, and a run of white space there has its next character
# within the left part. What is right of it matches as before, because the expression does not look behind.
# The following character is taken from a list, so that it does not matter whose Unicode tables are newer.
_PUNCTUATION = "".join(
    (
        r"!-/:-@\[-`{-~",  # ASCII
        "«»،؛؟।॥",
        "\u2010-\u2027\u2030-\u205e",  # dashes, quotes, bullets
        "\u2190-\u245f\u2500-\u2775",  # arrows, mathematics, boxes, signs
        "\u3001-\u3004\u3008-\u3020",  # CJK
        "！（），．：；？［］｛｝～",
        "\U0001f300-\U0001faff",  # emoji
    )
)
_WHITE_SPACE = r" \t\n\r"
_SAFE_CUT = re.compile(rf"[^\W_](?=[{_PUNCTUATION}{_WHITE_SPACE}])|[{_PUNCTUATION}](?=[{_WHITE_SPACE}])")
_WINDOW = 1024


def text_pieces(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most `limit` characters, cut where GPT-2's pre-tokenizer cuts. Joined, they are the text.

    Where there is no certain place within the limit, as in a run of nothing but letters, a piece is longer.
    """
    start = 0
    while len(text) - start > limit:
        cut = _last_cut(text, start, start + limit) or _first_cut(text, start + limit)
        yield text[start:cut]
        start = cut
    if start < len(text) or not text:
        yield text[start:]


def _last_cut(text: str, start: int, end: int) -> int | None:
    """The last safe place in `(start, end]`, looked for in windows from the end. `end` is inside the text."""
    window_end = end
    while window_end > start:
        window_start = max(start, window_end - _WINDOW)
        # One character more than may be matched, for the look-ahead.
        cuts = [match.end() for match in _SAFE_CUT.finditer(text, window_start, window_end + 1)]
        if cuts:
            return cuts[-1]
        window_end = window_start
    return None


def _first_cut(text: str, start: int) -> int:
    """The first safe place after `start`, or the text's end."""
    match = _SAFE_CUT.search(text, start)
    return match.end() if match else len(text)
