"""Our own extractor: one parse by Lexbor, pruning by element, role, class and density, the densest subtree kept.

Pages say with their elements, roles and class names what is furniture; `fast_rules` lists it. What is left is measured
once: characters of text, of links, of prose for each element. The main content is the smallest element that has nearly
all the prose. Every step is one pass over the elements, so time grows with the page and nothing else.

Belongs here: the choice. Does not: the rules, and Markdown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from marin_assets.stages import fast_rules as rules
from marin_assets.stages.markdown import remove, render_tree, simplify_code

if TYPE_CHECKING:
    from lxml.html import HtmlElement

    from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "summary"})
_MEANT_WITHOUT_TEXT = frozenset({"br", "hr", "td", "th", "img"})
_NOT_A_PAGE = frozenset({"p", "table", "tbody", "tr", "td", "ul", "ol", "dl", "pre", "blockquote", "a", "span"})
"""The main content is no single one of these: its neighbours belong to it."""
_MAY_BE_LISTS = frozenset({"ul", "ol", "dl", "div", "section", "p", "table", "form", "figure"})
_WORDS = re.compile("[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_RESERVED = re.compile("[\U00100000-\U0010ffff]")
"""What `markdown_blocks` puts between blocks."""


def extract_fast(html: str, url: str | None, config: HtmlToMarkdownConfig) -> tuple[str | None, str]:
    """The page's title, and its main content as Markdown; empty if it has none."""
    page = LexborHTMLParser(html)
    title = _title(page)
    body = _body(page)
    if body is None:
        return title, ""
    simplify_code(body)
    choice = _choose(body, config, strict=True)
    if choice.characters < rules.LEAST_CHARACTERS and choice.page_characters > 2 * choice.characters:
        choice = _choose(body, config, strict=False)
    for element in choice.removed:
        remove(element)
    content = choice.main
    content.tail = None
    if content.tag != "body":
        root = _parser().makeelement("body")
        root.append(content)
        content = root
    plain = "\n\n".join(" ".join(text.split()) for text in content.itertext() if text.strip())
    return title, render_tree(content, url, config) or plain


def _title(page: LexborHTMLParser) -> str | None:
    shared = page.css_first('meta[property="og:title"]')
    titles = [shared.attributes.get("content") if shared is not None else None]
    for selector in ("head > title", "title", "h1"):
        found = page.css_first(selector)
        titles.append(found.text() if found is not None else None)
    return next((" ".join(_RESERVED.sub("", title).split()) for title in titles if title and title.strip()), None)


def _body(page: LexborHTMLParser) -> HtmlElement | None:
    """The page's body as an lxml tree without elements that hold no text."""
    page.strip_tags(list(rules.WITHOUT_TEXT))
    if page.body is None or page.body.html is None:
        return None
    html = page.body.html
    if not html.isascii():
        html = _RESERVED.sub("", html)
    root = etree.fromstring(html.encode(), _parser())
    body: HtmlElement | None = None if root is None else root.find("body")
    return body


@cache
def _parser() -> etree.HTMLParser:
    from lxml.html import HtmlElement

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    # All elements are of one class, looked up in C: lxml.html's own lookup calls Python for each.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=HtmlElement))
    return parser


@dataclass(frozen=True)
class _Choice:
    main: HtmlElement
    removed: list[HtmlElement]
    characters: int
    """Of text in the main content."""
    page_characters: int


@dataclass(frozen=True)
class _Measures:
    """The elements of a tree in document order, and for each the sums over its subtree, as parallel lists."""

    elements: list[HtmlElement]
    tags: list[str]
    parents: list[int]
    """Place of the parent; 0 for the root."""
    ends: list[int]
    """Place behind the last descendant."""
    text: list[int]
    """Characters of text."""
    links: list[int]
    """Characters of short links."""
    prose: list[int]
    """Characters of long text nodes outside of short links."""

    def subtract(self, place: int) -> None:
        """Take a subtree's sums from all its ancestors."""
        text, links, prose = self.text[place], self.links[place], self.prose[place]
        while place:
            place = self.parents[place]
            self.text[place] -= text
            self.links[place] -= links
            self.prose[place] -= prose

    def with_ancestors(self, tag: str) -> set[int]:
        """Places of all elements of that name, and of what they stand in."""
        found: set[int] = set()
        for place, name in enumerate(self.tags):
            if name == tag:
                around = place
                while around not in found:
                    found.add(around)
                    around = self.parents[around]
        return found


def _measure(root: HtmlElement) -> _Measures:
    elements: list[HtmlElement] = list(root.iter())
    count = len(elements)
    places = dict(zip(elements, range(count), strict=True))
    tags: list[str] = [element.tag for element in elements]
    parents = [0, *(places[element.getparent()] for element in elements[1:])]
    in_link = bytearray(count)
    for place, parent in enumerate(parents):
        in_link[place] = in_link[parent] or tags[place] == "a"
    ends = list(range(1, count + 1))
    text, links, prose = [0] * count, [0] * count, [0] * count
    least = rules.PROSE_CHARACTERS
    for place in range(count - 1, -1, -1):
        element, parent = elements[place], parents[place]
        own = element.text
        if own:
            length = len(own.strip())
            text[place] += length
            if length >= least and not in_link[place]:
                prose[place] += length
        if tags[place] == "a":
            is_card = text[place] >= rules.CARD_CHARACTERS
            links[place], prose[place] = (0, text[place]) if is_card else (text[place], 0)
        if place == 0:
            break
        tail = element.tail
        if tail:
            length = len(tail.strip())
            text[parent] += length
            if length >= least and not in_link[parent]:
                prose[parent] += length
        text[parent] += text[place]
        links[parent] += links[place]
        prose[parent] += prose[place]
        if ends[place] > ends[parent]:
            ends[parent] = ends[place]
    return _Measures(elements, tags, parents, ends, text, links, prose)


def _choose(body: HtmlElement, config: HtmlToMarkdownConfig, *, strict: bool) -> _Choice:
    """Find the main content, and what in it is noise. Unless `strict`, only footers and controls are."""
    measures = _measure(body)
    page_characters = measures.text[0]
    removed = _noise(measures, config, strict=strict)
    gone = bytearray(len(measures.elements))
    for place in removed:
        gone[place : measures.ends[place]] = b"\1" * (measures.ends[place] - place)
    main = _main(measures, gone)
    if strict:
        lists = _link_lists(measures, gone, main)
        if sum(measures.text[place] for place in lists) <= rules.LISTS_SHARE * measures.text[main]:
            removed += lists
            for place in lists:
                measures.subtract(place)
    return _Choice(
        main=measures.elements[main],
        removed=[measures.elements[place] for place in removed],
        characters=measures.text[main],
        page_characters=page_characters,
    )


def _noise(measures: _Measures, config: HtmlToMarkdownConfig, *, strict: bool) -> list[int]:
    """Places of the outermost elements that are noise. Their sums are taken from those of their ancestors."""
    elements, tags, ends, text = measures.elements, measures.tags, measures.ends, measures.text
    protected = measures.with_ancestors("main") | measures.with_ancestors("h1")
    most = rules.NOISE_SHARE * text[0]
    most_of_footer = rules.NOISE_SHARE * measures.prose[0]
    removed: list[int] = []
    place, count = 1, len(elements)
    while place < count:
        tag = tags[place]
        if not text[place]:
            is_noise = tag not in _MEANT_WITHOUT_TEXT and ends[place] == place + 1
        elif place in protected:
            is_noise = False
        elif tag == "footer":
            is_noise = measures.prose[place] < most_of_footer
        elif tag == "noscript":
            is_noise = text[place] < rules.NOSCRIPT_CHARACTERS
        elif tag == "button":
            is_noise = tags[measures.parents[place]] not in _HEADINGS
        elif tag == "table" and not config.include_tables:
            is_noise = True
        else:
            is_noise = strict and text[place] < most and _is_noise(measures, place, config)
        if is_noise:
            removed.append(place)
            measures.subtract(place)
        place = ends[place] if is_noise or tag == "pre" else place + 1
    return removed


def _is_noise(measures: _Measures, place: int, config: HtmlToMarkdownConfig) -> bool:
    tag, element = measures.tags[place], measures.elements[place]
    if tag in rules.NOISE_ELEMENTS:
        return True
    name, identifier = element.get("class"), element.get("id")
    if tag not in rules.NEVER_NOISE:
        if name and _is_noise_name(name, config.include_comments):
            return True
        if identifier and _is_noise_name(identifier, config.include_comments):
            return True
    if element.get("role") in rules.NOISE_ROLES:
        return True
    style = element.get("style")
    if (
        element.get("aria-hidden") == "true"
        or element.get("hidden") is not None
        or (style is not None and "display:none" in style.replace(" ", ""))
    ):
        text = measures.text[place]
        return text < rules.HIDDEN_CHARACTERS or measures.links[place] > rules.HIDDEN_LINK_SHARE * text
    return False


@lru_cache(maxsize=1 << 14)
def _is_noise_name(name: str, comments: bool) -> bool:
    """Whether a class or id names furniture. The cache is bounded, and can't change an answer."""
    words = {word.lower() for word in _WORDS.findall(name)}
    lower = name.lower()
    return (
        not words.isdisjoint(rules.NOISE_WORDS)
        or (not comments and not words.isdisjoint(rules.COMMENT_WORDS))
        or any(stem in lower for stem in rules.NOISE_STEMS)
        or any(phrase in lower for phrase in rules.NOISE_PHRASES)
    )


def _main(measures: _Measures, gone: bytearray) -> int:
    """Place of the main content's element: what the page calls so, or else the smallest that has nearly all prose."""
    tags, ends, prose = measures.tags, measures.ends, measures.prose
    place = 0
    for tag, share in (("main", rules.MAIN_SHARE), ("article", rules.ARTICLE_SHARE)):
        named = [inner for inner in range(place, ends[place]) if tags[inner] == tag and not gone[inner]]
        largest = max(named, key=prose.__getitem__, default=place)
        if prose[largest] >= share * prose[place]:
            place = largest
    while True:
        least = rules.DESCENT_SHARE * prose[place]
        inner = place + 1
        while inner < ends[place] and (gone[inner] or prose[inner] < least):
            inner = ends[inner]
        if inner >= ends[place] or tags[inner] in _NOT_A_PAGE:
            return place
        place = inner


def _link_lists(measures: _Measures, gone: bytearray, main: int) -> list[int]:
    """Places of the outermost blocks in the main content that are lists of links."""
    tags, ends, text, links, prose = measures.tags, measures.ends, measures.text, measures.links, measures.prose
    found: list[int] = []
    most = rules.LIST_PAGE_SHARE * text[main]
    place = main + 1
    while place < ends[main]:
        is_list = not gone[place] and (
            text[place] > 0
            and links[place] > rules.LIST_LINK_SHARE * text[place]
            and text[place] < most
            and prose[place] < rules.LIST_PROSE_CHARACTERS
            and tags[place] in _MAY_BE_LISTS
        )
        if is_list:
            found.append(place)
        place = ends[place] if is_list or gone[place] else place + 1
    return found
