"""What the data stages must do, in plain Python: one text, one line at a time, no arrays."""

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

WHITE_SPACE = "\t\n\v\f\r\x85" + "".join(
    chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) in {"Zs", "Zl", "Zp"}
)


def normalize_text(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(character for character in text if character in "\t\n" or unicodedata.category(character) != "Cc")
    text = unicodedata.normalize("NFC", text)
    kept, run = [], 0
    for character in text:
        run = run + 1 if character in WHITE_SPACE else 0
        if run <= 128:
            kept.append(character)
    return "".join(kept)


@dataclass(frozen=True)
class Block:
    kind: str  # text, heading, fence
    start: int  # in bytes
    end: int
    content: str


def blocks(text: str) -> list[Block]:
    """The blocks of a text, by a parser that looks at one line after the other."""
    lines = text.split("\n")
    kinds: list[tuple[str, int, int]] = []  # kind, first line, last line
    index = 0
    while index < len(lines):
        line = lines[index]
        if blank(line):
            index += 1
        elif (last := fence_end(lines, index)) is not None:
            kinds.append(("fence", index, last))
            index = last + 1
        elif is_atx_heading(line):
            kinds.append(("heading", index, index))
            index += 1
        else:
            above = kinds[-1] if kinds and kinds[-1][0] == "text" and kinds[-1][2] == index - 1 else None
            if above and can_be_heading_text(lines[above[1]]) and re.fullmatch(" {0,3}(=+|-+)[ \t]*", line):
                kinds[-1] = ("heading", above[1], index)
            elif re.fullmatch(r" {0,3}([-*_])[ \t]*(\1[ \t]*){2,}", line):
                kinds.append(("heading", index, index))
            elif above:
                kinds[-1] = ("text", above[1], index)
            else:
                kinds.append(("text", index, index))
            index += 1
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line.encode()) + 1)
    return [
        Block(kind, offsets[first], offsets[last + 1] - 1, "\n".join(lines[first : last + 1]))
        for kind, first, last in kinds
    ]


def lines_as_blocks(text: str) -> list[Block]:
    found, offset = [], 0
    for line in text.split("\n"):
        size = len(line.encode())
        if not blank(line):
            found.append(Block("text", offset, offset + size, line))
        offset += size + 1
    return found


def blank(line: str) -> bool:
    return not line.strip(WHITE_SPACE)


def is_atx_heading(line: str) -> bool:
    return re.match("( {0,3})#{1,6}([ \t]|$)", line) is not None


def can_be_heading_text(line: str) -> bool:
    indent = len(line) - len(line.lstrip(" \t"))
    if len(line[:indent].expandtabs(4)) >= 4 or line[indent] in ">|":
        return False
    return re.match(r"([-+*]|[0-9]{1,9}[.)])([ \t]|$)", line[indent:]) is None


def fence_end(lines: list[str], first: int) -> int | None:
    """The last line of the fenced code block that begins on a line, if one does."""
    prefix, rest, marker = "", lines[first], False
    while found := re.match(r"[ \t]*(>|([-+*]|[0-9]{1,9}[.)])(?=[ \t]))", rest):
        prefix += found[0]
        rest = rest[len(found[0]) :]
        marker = marker or found[2] is not None
    indent = len(rest) - len(rest.lstrip(" \t"))
    prefix, rest = prefix + rest[:indent], rest[indent:]
    fence = re.match("`{3,}|~{3,}", rest)
    if fence is None or (fence[0][0] == "`" and "`" in rest[len(fence[0]) :]):
        return None
    quoted, column = ">" in prefix, len(prefix.expandtabs(4))
    in_item = marker or column >= 4
    leftmost = column if marker else max(0, column - 3)
    rightmost = column + 3 if in_item else 3
    last = first
    for index in range(first + 1, len(lines)):
        line = lines[index]
        if quoted and not line.lstrip(" \t").startswith(">"):
            return last
        closing = re.fullmatch("([ \t>]*)(`{3,}|~{3,})[ \t]*", line)
        if (
            closing
            and (">" in closing[1]) == quoted
            and closing[2][0] == fence[0][0]
            and len(closing[2]) >= len(fence[0])
            and (quoted or leftmost <= len(closing[1].expandtabs(4)) <= rightmost)
        ):
            return index
        if not blank(line):
            last = index
    return None if in_item and not quoted else last


def repeated(
    documents: dict[str, str], *, unit: str = "paragraph", minimum: int = 0, within_document: bool = True
) -> dict[str, list[tuple[int, int]]]:
    """Spans of the repeated paragraphs of each document, by its id."""
    first_document: dict[str, str] = {}
    spans: dict[str, list[tuple[int, int]]] = {}
    for document in sorted(documents):
        text = documents[document]
        spans[document] = []
        found = lines_as_blocks(text) if unit == "line" else [b for b in blocks(text) if b.kind != "heading"]
        for block in found:
            if len(block.content) < minimum:
                continue
            seen_in = first_document.get(block.content)
            first_document.setdefault(block.content, document)
            if seen_in is not None and (within_document or seen_in != document):
                spans[document].append((block.start, block.end))
    return spans


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without some of its blocks, or of its lines where they are no blocks."""
    found = blocks(text)
    data = text.encode()
    if not spans:
        return text
    kept = [block for block in found if (block.start, block.end) not in spans]
    if not kept:
        return ""
    gaps = [data[: found[0].start]]
    gaps += [data[left.end : right.start] for left, right in pairwise(found)]
    gaps += [data[found[-1].end :]]
    result, previous = gaps[0], -1
    for index, block in enumerate(found):
        if block not in kept:
            continue
        if previous >= 0:
            between = gaps[previous + 1 : index + 1]
            widest = max(between, key=lambda gap: gap.count(b"\n"))
            if len(between) > 1 and widest.count(b"\n") == 1:
                widest = between[0] + between[-1]
            result += widest
        result += data[block.start : block.end]
        previous = index
    return (result + gaps[-1]).decode()


_WORDS = [
    "a",
    "word",
    "é",
    "e\u0301",
    "漢字",
    "かな",
    "🙂",
    "👩\u200d💻",
    "\u2028",
    "\u00a0",
    "\u3000",
    "-",
    "`",
    "\t",
    "ß",
]
_LINES = [
    "", "", "", "", " ", "\t", "\u00a0", "\u3000 ", "\u2028", "\r", "same", "same", "漢字 é", "🙂",
    "e\u0301 tail  ", "# Title", "## é", "#no heading", "   ### deep", "    # code", "===", "---", "- - -",
    "***", "_ _ _", "-", "    ---", "--", "```", "```", "```python", "~~~", "~~~~", "  ```", "      ```",
    "    ```", "``` a`b", "- ```", "1. ~~~ x", "> ```", "> same", ">", "- item", "  - inner", "    indented",
    "| a | é |", "|---|---|", "| 1 | 2 |", "1. one", "\tx", "- - ```", "> - ```",
]  # fmt: skip

markdown_texts = st.lists(
    st.one_of(st.sampled_from(_LINES), st.lists(st.sampled_from(_WORDS), max_size=3).map("".join)), max_size=24
).map("\n".join)
"""Texts of lines that collide with one another, in many scripts, with all that Markdown can do."""

any_texts = st.one_of(
    markdown_texts,
    st.text(st.characters(exclude_categories=["Cs", "Cn", "Co"]), max_size=60),
    st.text(
        st.sampled_from("\r\n\t\v\f\x00\x07\x85 \u00a0\u2028ae\u0301\u0327한\u1100\u1161\ufffd\ufeff"), max_size=400
    ),
)
