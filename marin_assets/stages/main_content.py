"""Which text of a page is its main content, and the page's title.

The extractors choose well but write poor Markdown: they lose the blank lines and languages of code, list numbers,
quotes, tables inside of lists. So they choose only. Every text node of the parsed page gets a mark of one
or two characters that pages do not use; the extractor runs on the marked page; the marks that are left in what it gives
are the nodes it chose. `markdown` renders these nodes from the page itself. A text that stands once in the page
can thus not come out twice.

Belongs here: marks, and the calls of the extractors. Does not: Markdown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxml import etree
from lxml.html import HTMLParser, document_fromstring

if TYPE_CHECKING:
    from lxml.html import HtmlElement

    from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig

# Supplementary Private Use Area-B: nothing but the odd icon font stands there. Such icons are left out of the text.
_FIRST_MARK = 0x100000
_MARK_COUNT = 0xFFFE
_MARKS = re.compile("[\U00100000-\U0010fffd]+")
_TEXT_NODES = etree.XPath("//text()[normalize-space()]")
_START_CHARACTERS = 4096
# libxml2 stumbles over some of both, and needs neither.
_DOCTYPE = re.compile(r"\s*<!doctype[^>]*>", re.IGNORECASE)
_SELF_CLOSED_ROOT = re.compile(r"(<html\b[^>]*?)/>", re.IGNORECASE)
_UNSEEN = {"script", "style", "template", "title", "textarea", "noscript"}


@dataclass(frozen=True)
class TextNode:
    """A text node of an lxml tree: the text before an element's first child, or the text after the element."""

    element: HtmlElement
    is_tail: bool

    @property
    def text(self) -> str:
        return (self.element.tail if self.is_tail else self.element.text) or ""

    def set_text(self, value: str) -> None:
        if self.is_tail:
            self.element.tail = value
        else:
            self.element.text = value

    @property
    def parent(self) -> HtmlElement | None:
        return self.element.getparent() if self.is_tail else self.element


@dataclass(frozen=True)
class MainContent:
    """What an extractor chose. When it gave text that is not on the page, `own_text` holds that as Markdown."""

    chosen: tuple[TextNode, ...]
    others: tuple[TextNode, ...]
    own_text: str | None = None


def parse(html: str) -> HtmlElement | None:
    """The page's tree by libxml2's HTML parser, without comments; None when it finds no element."""
    start, rest = html[:_START_CHARACTERS], html[_START_CHARACTERS:]
    start = _SELF_CLOSED_ROOT.sub(r"\1>", _DOCTYPE.sub("", start, count=1), count=1)
    parser = HTMLParser(
        encoding="utf-8",
        huge_tree=True,  # else all that comes after 256 elements left open is lost
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
        default_doctype=False,
    )
    try:
        tree: HtmlElement = document_fromstring((start + rest).encode(), parser)
    except etree.ParserError:
        return None
    return tree


def page_title(tree: HtmlElement) -> str | None:
    """The title that a page gives itself: for sharing, in its head, or in its first heading."""
    for path in ("//meta[@property='og:title']/@content", "//head/title", "//title", "//h1"):
        for found in tree.xpath(path):
            title = " ".join(("".join(found.itertext()) if isinstance(found, etree._Element) else str(found)).split())
            if title:
                return _MARKS.sub("", title)
    return None


def choose(tree: HtmlElement, html: str, config: HtmlToMarkdownConfig) -> MainContent:
    """Let the configured extractor choose among the text nodes of a page. The tree's text is left as it was."""
    extract = _EXTRACTORS[config.extract_method.value]
    marked = _mark(tree)
    marks, own_text = extract(tree, html, config)
    chosen: list[TextNode] = []
    others: list[TextNode] = []
    for mark, (node, text) in marked.items():
        node.set_text(text)
        (chosen if mark in marks else others).append(node)
    return MainContent(tuple(chosen), tuple(others), None if chosen else own_text())


def _mark(tree: HtmlElement) -> dict[str, tuple[TextNode, str]]:
    """Put a mark before each text that can be seen. The result has the node and its text by mark, in page order."""
    nodes = [TextNode(text.getparent(), text.is_tail) for text in _TEXT_NODES(tree)]
    nodes = [node for node in nodes if node.is_tail or node.element.tag not in _UNSEEN]
    short = len(nodes) <= _MARK_COUNT
    marked = {}
    for index, node in enumerate(nodes):
        high, low = divmod(index, _MARK_COUNT)
        mark = chr(_FIRST_MARK + low) if short else chr(_FIRST_MARK + high) + chr(_FIRST_MARK + low)
        text = _MARKS.sub("", node.text)
        node.set_text(mark + text if text else "")
        if text:
            marked[mark] = (node, text)
    return marked


_Choice = tuple[set[str], Callable[[], str | None]]
"""The marks that are left, and the extractor's own Markdown for when there are none."""


def _trafilatura(tree: HtmlElement, _html: str, config: HtmlToMarkdownConfig) -> _Choice:
    from trafilatura.core import bare_extraction
    from trafilatura.settings import Document
    from trafilatura.xml import xmltotxt

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # what it logs, the row's status says
    document = bare_extraction(
        tree,
        output_format="markdown",
        fast=config.fast,
        favor_precision=config.favor_precision,
        favor_recall=config.favor_recall,
        include_comments=config.include_comments,
        include_tables=config.include_tables,
        include_images=config.include_images,
        include_formatting=True,
        include_links=config.include_links,
        deduplicate=False,
        with_metadata=False,
    )
    if not isinstance(document, Document):
        return set(), lambda: None
    bodies = [body for body in (document.body, document.commentsbody) if body is not None]
    marks = {mark for body in bodies for text in body.itertext() for mark in _MARKS.findall(text)}
    # Without marks the text comes from the page's JSON-LD.
    return marks, lambda: "\n\n".join(xmltotxt(body, include_formatting=True) for body in bodies).strip()


def _resiliparse(tree: HtmlElement, html: str, config: HtmlToMarkdownConfig) -> _Choice:
    from resiliparse.extract.html2text import extract_plain_text

    def extract(page: str) -> str:
        text: str = extract_plain_text(
            page,
            preserve_formatting=False,
            main_content=True,
            alt_texts=False,
            comments=config.include_comments,
            post_meta=config.post_meta,
            hidden_elements=config.hidden_elements,
            skip_elements=[] if config.include_tables else ["table"],
        )
        return text

    marks = set(_MARKS.findall(extract(etree.tostring(tree, encoding="unicode", method="html"))))
    # Without marks its HTML parser may have understood the page when libxml2's did not.
    return marks, lambda: extract(html)


_EXTRACTORS: dict[str, Callable[[HtmlElement, str, HtmlToMarkdownConfig], _Choice]] = {
    "trafilatura": _trafilatura,
    "resiliparse": _resiliparse,
}
