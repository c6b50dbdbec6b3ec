"""Composes Markdown from a tree of few elements, so that blank lines keep its blocks apart.

html-to-markdown writes the leaves: runs of inline content, headings, code blocks, tables. It lets quotes, and tables
in lists, run into the paragraph before them; so what blocks stand in, and what stands between them, is ours.

Belongs here: quotes, lists and the white space of HTML. Does not: which elements a page is reduced to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from lxml import etree

if TYPE_CHECKING:
    from html_to_markdown import ConversionOptions
    from lxml.html import HtmlElement

INLINE = {"a", "br", "img", "b", "strong", "em", "i", "del", "s", "strike", "code", "kbd", "samp", "tt", "var", "q"}
"""Elements that stand in a line of text; all others are blocks."""
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_LEAVES = {"pre", "table", "hr", *_HEADINGS}
_CELLS = ("td", "th", "caption")
_RUN = "p"
"""Holds a run of inline content while it is worked on."""
_LIST_NUMBER = re.compile("[0-9]{1,8}")
_SEPARATOR = "\U00100000"
"""Stands between leaves. The tree must not have it; `main_content` takes it out of pages."""
_BETWEEN_LEAVES = re.compile(f"\n*{_SEPARATOR}\n*")
_WHITE_SPACE = " \t\n\r\f"
_SPACES = re.compile(f"[{_WHITE_SPACE}]{{2,}}|[{_WHITE_SPACE.strip(' ')}]")
"""White space that is not a single space: with the others, every word of a text would be an object for a while."""
_EMPTY_LINES = re.compile(r" *\n *\n\s*")


@dataclass
class _Leaf:
    element: HtmlElement
    text: str = ""


@dataclass(frozen=True)
class _Quote:
    blocks: list[_Block]


@dataclass(frozen=True)
class _List:
    items: list[list[_Block]]
    start: int | None
    """Number of the first item; None when bullets mark them."""


_Block = _Leaf | _Quote | _List


def compose(root: HtmlElement) -> str:
    """Markdown of all that stands in an element, which is used up. Empty when the converter or Python gives up.

    White space collapses as in CSS's `white-space: normal`, outside `<pre>`: how the source is wrapped shows nowhere.
    """
    leaves: list[_Leaf] = []
    try:
        blocks = _blocks(root, leaves)
        _convert(leaves)
        return "\n\n".join(_rendered(blocks))
    except RecursionError:
        return ""


def _blocks(element: HtmlElement, leaves: list[_Leaf]) -> list[_Block]:
    """The blocks of an element's content. Their leaves are taken out of the tree and added to the list."""
    found: list[_Block] = []
    text: str | None = element.text
    inline: list[HtmlElement] = []
    for child in list(element):
        if child.tag in INLINE:
            inline.append(child)
            continue
        found += _run(text, inline, leaves)
        text, inline = child.tail, []
        child.tail = None
        if child.tag in _LEAVES:
            found += _leaf(child, leaves)
        elif child.tag == "blockquote":
            found.append(_Quote(_blocks(child, leaves)))
        elif child.tag in {"ul", "ol"} and child.find("li") is not None:
            found.append(_list(child, leaves))
        else:
            found += _blocks(child, leaves)
    return found + _run(text, inline, leaves)


def _run(text: str | None, inline: list[HtmlElement], leaves: list[_Leaf]) -> list[_Block]:
    """The block of a text and the inline elements behind it, if they are more than white space."""
    if not inline and (text is None or not text.strip(_WHITE_SPACE)):
        return []
    run = _run_of(text)
    run.extend(inline)
    return _leaf(run, leaves)


def _run_of(text: str | None) -> HtmlElement:
    run: HtmlElement = etree.Element(_RUN)
    run.text = text
    return run


def _leaf(element: HtmlElement, leaves: list[_Leaf]) -> list[_Block]:
    if element.tag == "table":
        for cell in list(element.iter(*_CELLS)):
            _flatten(cell)
    elif element.tag in _HEADINGS:
        _flatten(element)
    elif element.tag == _RUN:
        _collapse_white_space(element)
        if not len(element) and not element.text:
            return []
    leaf = _Leaf(element)
    leaves.append(leaf)
    return [leaf]


def _flatten(element: HtmlElement) -> None:
    """Make one line of an element, with spaces where its blocks were."""
    for block in list(element.iterdescendants()):
        if block.tag not in INLINE or block.tag == "br":
            block.text = f" {block.text or ''}"
            block.tail = f" {block.tail or ''}"
            block.drop_tag()
    _collapse_white_space(element)


def _collapse_white_space(element: HtmlElement) -> None:
    """Collapse the white space of inline content, also where it spans elements; none is left at the ends of lines."""
    if not len(element):
        element.text = _SPACES.sub(" ", element.text or "").strip(" ") or None
        return
    last: tuple[HtmlElement, str] | None = None
    after_space = True
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if event == "end" and node is element:
            break
        if event == "start" and node.tag in {"br", "img"}:
            if node.tag == "br":
                _strip_end(last)
            last, after_space = None, node.tag == "br"
        where = "text" if event == "start" else "tail"
        text = _SPACES.sub(" ", getattr(node, where) or "")
        text = text[1:] if after_space and text.startswith(" ") else text
        setattr(node, where, text or None)
        if text:
            last, after_space = (node, where), text.endswith(" ")
    _strip_end(last)


def _strip_end(place: tuple[HtmlElement, str] | None) -> None:
    if place is not None:
        node, where = place
        setattr(node, where, getattr(node, where).removesuffix(" ") or None)


def _list(element: HtmlElement, leaves: list[_Leaf]) -> _List:
    """A list. What stands in it outside of items belongs to the item before."""
    groups = [_run_of(element.text)]
    for child in list(element):
        if child.tag == "li":
            groups += [child, _run_of(child.tail)]
            child.tail = None
        else:
            groups[-1].append(child)
    items: list[list[_Block]] = []
    for group in groups:
        blocks = _blocks(group, leaves)
        if blocks and (group.tag == "li" or not items):
            items.append(blocks)
        elif blocks:
            items[-1] += blocks
    start = element.get("start", "")
    first = int(start) if _LIST_NUMBER.fullmatch(start) else 1
    return _List(items, first if element.tag == "ol" else None)


def _convert(leaves: list[_Leaf]) -> None:
    """Give each leaf its Markdown, all by one call, since most of the converter's time goes into starting."""
    from html_to_markdown import convert

    for leaf in leaves:
        if _is_plain(leaf.element):
            leaf.text = leaf.element.text.rstrip()
    leaves = [leaf for leaf in leaves if not leaf.text]
    root = etree.Element("div")
    root.text = _SEPARATOR
    for leaf in leaves:
        leaf.element.tail = _SEPARATOR
        root.append(leaf.element)
    markdown = convert(etree.tostring(root, encoding="unicode", method="html"), _options()).content or ""
    texts = _BETWEEN_LEAVES.split(markdown)[1:-1]
    if len(texts) == len(leaves):
        for leaf, text in zip(leaves, texts, strict=True):
            leaf.text = _EMPTY_LINES.sub("\n\n", text).strip() if leaf.element.tag == _RUN else text


def _is_plain(element: HtmlElement) -> bool:
    """Whether an element is a text that is the same in Markdown, as nearly every paragraph's is.

    The converter changes backslashes, and what at the start of a line would be no text.
    """
    text = element.text
    return element.tag == _RUN and not len(element) and bool(text) and text[0].isalpha() and "\\" not in text


@cache
def _options() -> ConversionOptions:
    from html_to_markdown import ConversionOptions, PreprocessingOptions

    return ConversionOptions(
        autolinks=False,
        extract_metadata=False,
        whitespace_mode="strict",
        preprocessing=PreprocessingOptions(enabled=False),
    )


def _rendered(blocks: list[_Block]) -> list[str]:
    """Markdown of each block that has any."""
    return list(filter(None, map(_render, blocks)))


def _render(block: _Block) -> str:
    match block:
        case _Leaf():
            return block.text
        case _Quote(blocks):
            content = "\n\n".join(_rendered(blocks))
            return _prefixed(content, "> ", "> ") if content else ""
        case _List():
            return _render_list(block)


def _render_list(block: _List) -> str:
    separator = "\n" if _is_tight(block) else "\n\n"
    lines = []
    for number, blocks in enumerate(filter(None, map(_rendered, block.items)), block.start or 0):
        marker = "- " if block.start is None else f"{number}. "
        # A break of dashes right behind a dash would make one break of both.
        content = separator.join(["***" if blocks[0] == "---" else blocks[0], *blocks[1:]])
        lines.append(_prefixed(content, marker, " " * len(marker)))
    return separator.join(lines)


def _is_tight(block: _List) -> bool:
    """Whether no blank lines are needed: items are a paragraph, and lists that can interrupt one (CommonMark §5.3)."""
    for item in block.items:
        for place, inner in enumerate(item):
            match inner:
                case _Leaf(element, text):
                    tight = place == 0 and element.tag == _RUN and "\n\n" not in text
                case _List():
                    tight = inner.start in {None, 1} and _is_tight(inner)
                case _:
                    tight = False
            if not tight:
                return False
    return True


def _prefixed(text: str, first: str, others: str) -> str:
    """Put prefixes before the first and the other lines; before blank ones without the spaces at their ends."""
    lines = [f"{others}{line}" if line else others.rstrip() for line in text.split("\n")]
    lines[0] = first + text.split("\n", 1)[0]
    return "\n".join(lines)
