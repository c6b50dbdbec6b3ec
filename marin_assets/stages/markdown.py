"""Renders the chosen text of a page as GitHub-flavoured Markdown.

Belongs here: what of the page's structure is kept, and in which shape html-to-markdown must get it. Does not: which
text is chosen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from lxml import etree

from marin_assets.stages.main_content import TextNode
from marin_assets.stages.markdown_blocks import INLINE, compose
from marin_assets.stages.maths import hide_tex, show_tex
from marin_assets.stages.table_grid import fill_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lxml.html import HtmlElement

    from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig

_TABLE_PARTS = {"caption", "thead", "tbody", "tfoot", "tr", "td", "th"}
_BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "dl", "dt", "dd", "pre", "blockquote", "div"}
_BLOCKS |= {"table", "figure", "figcaption", "hr", *_TABLE_PARTS}
_CONTAINERS = {"section", "article", "main", "header", "footer", "nav", "aside", "form", "details", "summary", "center"}
_CONTAINERS |= {"address", "fieldset", "legend", "hgroup", "search", "dialog", "noscript", "option"}
_MEANT_WITHOUT_TEXT = {"br", "hr", "td", "th"}
_ATTRIBUTES = {"a": {"href"}, "img": {"src", "alt"}, "ol": {"start"}, "code": {"class"}}
_NOT_IN_DATA_TABLES = ("table", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6")
_LANGUAGE_CLASS = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-(?:source-|text-)?|brush:\s*|hljs\s+)([\w+#.\-]+)")
_LANGUAGE_NAME = re.compile(r"[\w+#.\-]+")
_NO_LANGUAGES = {"none", "plain", "plaintext", "text", "nohighlight", "no-highlight"}
_LINE_NUMBERS = re.compile(r"\s*1\s+2\s[\d\s]*")


def simplify_code(tree: HtmlElement) -> None:
    """Turn each `<pre>` into one text, its language beside it, and remove columns of line numbers.

    To be done before the text is chosen, so that a code block is chosen as a whole.
    """
    for block in list(tree.iter("pre")):
        for line_break in block.iter("br"):
            line_break.tail = "\n" + (line_break.tail or "")
        language = _code_language(block)
        text = "".join(block.itertext()).removeprefix("\n").rstrip()
        for child in list(block):
            block.remove(child)
        block.text = "" if _LINE_NUMBERS.fullmatch(text) else text
        if language is not None:
            block.set("data-language", language)


def render(
    tree: HtmlElement,
    chosen: Sequence[TextNode],
    others: Sequence[TextNode],
    url: str | None,
    config: HtmlToMarkdownConfig,
) -> str:
    """Markdown of the chosen text nodes, in the page's order. The tree is used up.

    Tables, nested lists, code blocks with their language and blank lines, quotes and list numbers are the page's.
    """
    root = tree.find("body")
    root = tree if root is None else root
    kept = _with_ancestors(node.parent for node in chosen)
    listed = _lists_in_cells(root, kept)
    kept |= _with_ancestors(listed)
    if config.include_images:
        kept |= _with_ancestors(_images_within(root, kept, _with_ancestors(node.parent for node in others)))
    plain = "\n\n".join(" ".join(node.text.split()) for node in chosen)
    for node in others:
        if node.parent not in listed:
            node.set_text(" ")
    _prune(root, kept)
    # The converter gives nothing for what nests too deep for it: better plain text than none.
    return render_tree(root, url, config) or plain


def render_tree(root: HtmlElement, url: str | None, config: HtmlToMarkdownConfig) -> str:
    """Markdown of all the text in an element, which is used up. Empty when it nests too deep."""
    _unwrap_layout_tables(root)
    for table in root.iter("table"):
        fill_spans(table)
    formulas = hide_tex(root)
    _simplify(root, url, config)
    return show_tex(compose(root), formulas)


def _code_language(block: HtmlElement) -> str | None:
    """The language by the conventions of HTML5, Prism, highlight.js, GitHub, Sphinx and SyntaxHighlighter."""
    parents = [parent for parent in (block.getparent(),) if parent is not None and len(parent) == 1]
    grandparents = [parent.getparent() for parent in parents if parent.getparent() is not None]
    for element in (*block.iter("code"), block, *parents, *grandparents):
        for attribute in ("data-language", "data-lang", "lang"):
            value = element.get(attribute)
            if value and element.tag in {"pre", "code"} and _LANGUAGE_NAME.fullmatch(value):
                return str(value).lower()
        found = _LANGUAGE_CLASS.search(element.get("class", ""))
        if found is not None:
            language = found[1].lower()
            return None if language in _NO_LANGUAGES else language
    return None


def _with_ancestors(elements: Iterable[HtmlElement | None]) -> set[HtmlElement]:
    found: set[HtmlElement] = set()
    for start in elements:
        element = start
        while element is not None and element not in found:
            found.add(element)
            element = element.getparent()
    return found


def _lists_in_cells(root: HtmlElement, kept: set[HtmlElement]) -> set[HtmlElement]:
    """All elements of the lists in cells of kept rows, which extractors overlook, in tables that have a heading."""
    found: set[HtmlElement] = set()
    for table in root.iter("table"):
        if table.find(".//th") is not None and not _is_layout(table):
            lists = (item for row in table.iter("tr") if row in kept for item in row.iter("ul", "ol"))
            found.update(element for item in lists for element in item.iter())
    return found


def _images_within(root: HtmlElement, kept: set[HtmlElement], left: set[HtmlElement]) -> list[HtmlElement]:
    """Pictures that stand in kept text: the nearest element around one, figures aside, that has text has kept text."""
    images = []
    for image in root.iter("img"):
        around = next(
            (each for each in image.iterancestors() if each.tag != "figure" and (each in kept or each in left)), root
        )
        if around in kept and around is not root and image.get("src"):
            images.append(image)
    return images


def _prune(root: HtmlElement, kept: set[HtmlElement]) -> None:
    """Remove the elements that hold nothing kept."""
    for element in list(root.iterdescendants()):
        parent = element.getparent()
        inside = parent is root or parent in kept
        if inside and element not in kept and element.tag not in _MEANT_WITHOUT_TEXT:
            remove(element)


def remove(element: HtmlElement) -> None:
    """Remove an element, but not the text that follows it."""
    parent, before, tail = element.getparent(), element.getprevious(), element.tail or ""
    text = (parent.text if before is None else before.tail) or ""
    element.tail = None
    parent.remove(element)
    if not tail or (tail.isspace() and text[-1:].isspace()):
        return
    if before is None:
        parent.text = text + tail
    else:
        before.tail = text + tail


def _unwrap_layout_tables(root: HtmlElement) -> None:
    """Make blocks of the tables that only place things on the page; Markdown's cells hold one line of text."""
    for table in list(root.iter("table")):
        if _is_layout(table):
            own = [part for part in table.iter(*_TABLE_PARTS) if next(part.iterancestors("table"), None) is table]
            for part in (table, *own):
                part.tag = "div"


def _is_layout(table: HtmlElement) -> bool:
    if table.get("role") in {"presentation", "none"}:
        return True
    if any(table.find(f".//{name}") is not None for name in _NOT_IN_DATA_TABLES):
        return True
    return all(len(row) <= 1 for row in table.iter("tr"))


def _simplify(root: HtmlElement, url: str | None, config: HtmlToMarkdownConfig) -> None:
    """Reduce the tree to the few elements and attributes that Markdown knows."""
    left_out = set() if config.include_formatting else INLINE - {"a", "br", "img"}
    left_out |= {"a"} if not config.include_links else set()
    left_out |= {"img"} if not config.include_images else set()
    for element in root.iter():
        if element.tag in _CONTAINERS or "-" in element.tag:
            element.tag = "div"
        elif element.tag in {"menu", "dir"}:
            element.tag = "ul"
    names = {element.tag for element in root.iterdescendants()}
    etree.strip_tags(root, *(names - (INLINE - left_out) - _BLOCKS))
    for element in _inline_around_blocks(root):
        element.drop_tag()
    root.tag = "div"
    for element in list(root.iter("pre")):
        code = etree.SubElement(element, "code")
        code.text, element.text = element.text, None
        if element.get("data-language"):
            code.set("class", f"language-{element.get('data-language')}")
    for element in root.iter():
        _clean_attributes(element, url)


def _inline_around_blocks(root: HtmlElement) -> list[HtmlElement]:
    """Inline elements that hold blocks, as those do that a page forgets to close: Markdown has no such thing."""
    found: dict[HtmlElement, None] = {}
    for block in root.iter(*_BLOCKS):
        around = block.getparent()
        while around is not None and around.tag in INLINE and around not in found:
            found[around] = None
            around = around.getparent()
    return list(found)


def _clean_attributes(element: HtmlElement, url: str | None) -> None:
    if element.tag == "ol" and len(element) and element[0].get("value"):
        element.set("start", element[0].get("value"))
    names = element.keys()
    if not names:
        return
    keep = _ATTRIBUTES.get(element.tag, set())
    for name in names:
        if name not in keep:
            del element.attrib[name]
        elif url is not None and name in {"href", "src"}:
            element.set(name, _absolute(url, element.get(name)))


def _absolute(base: str, address: str) -> str:
    try:
        return urljoin(base, address.strip())
    except ValueError:  # such as an unclosed bracket in an IPv6 host
        return address
