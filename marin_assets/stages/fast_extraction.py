"""Our own extractor: one parse by Lexbor, pruning by element, role, class and density, the densest subtree kept.

Pages say with their elements, roles and class names what is furniture; `fast_rules` lists it. What is left is measured
once: characters of text, of links, of prose for each element. The main content is the smallest element that has nearly
all the prose. Every step is one pass over the elements, so time grows with the page and nothing else.

Belongs here: the choice. Does not: the rules, and Markdown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
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
_NOT_A_PAGE = frozenset({"p", "table", "tbody", "tr", "td", "ul", "ol", "dl", "pre", "blockquote", "a", "span"})
"""The main content is no single one of these: its neighbours belong to it."""
_MAY_BE_LISTS = frozenset({"ul", "ol", "dl", "div", "section", "p", "table", "form", "figure"})
_TELLING = frozenset({"class", "id", "role", "style", "hidden", "aria-hidden"})
"""Attributes that say whether an element is content."""
_PARTS = rules.NOISE_STEMS + rules.NOISE_PHRASES
_WORDS = re.compile("[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_RESERVED = re.compile("[\U00100000-\U0010ffff]")
"""What `markdown_blocks` puts between blocks."""
_RESERVED_BYTE = b"\xf4"
"""Begins all of them in UTF-8."""
_CHARACTERS = etree.XPath("string-length(normalize-space())")
_PROTECTED = etree.XPath("descendant::main | descendant::h1")


def extract_fast(html: str, url: str | None, config: HtmlToMarkdownConfig) -> tuple[str | None, str]:
    """The page's title, and its main content as Markdown; empty if it has none."""
    page = LexborHTMLParser(html.encode())
    title = _title(page)
    source = _body_html(page)
    del page  # what follows needs the memory on long pages
    body = _parse(source)
    if body is None:
        return title, ""
    page_characters = _CHARACTERS(body)
    main, characters = _main_content(body, config, strict=True)
    if characters < rules.LEAST_CHARACTERS and page_characters > 2 * characters:
        body = _parse(source)
        assert body is not None, "the same bytes parse again"
        main, _ = _main_content(body, config, strict=False)
    del source, body
    return title, render_tree(main, url, config)


def _title(page: LexborHTMLParser) -> str | None:
    """The title for sharing, in the head, or in the first heading: the first that has text."""
    for selector in ('meta[property="og:title"]', "title", "h1"):
        found = page.css_first(selector)
        if found is not None:
            title = found.attributes.get("content") if selector.startswith("meta") else found.text()
            words = _RESERVED.sub("", title or "").split()
            if words:
                return " ".join(words)
    return None


def _body_html(page: LexborHTMLParser) -> bytes:
    """The page's body without elements that hold no text."""
    page.strip_tags(list(rules.WITHOUT_TEXT))
    html = (page.body.html if page.body is not None else None) or ""
    encoded = html.encode()
    return _RESERVED.sub("", html).encode() if _RESERVED_BYTE in encoded else encoded


def _parse(source: bytes) -> HtmlElement | None:
    root = etree.fromstring(source, _parser()) if source else None
    body: HtmlElement | None = None if root is None else root.find("body")
    return body


@cache
def _parser() -> etree.HTMLParser:
    from lxml.html import HtmlElement

    parser = etree.HTMLParser(
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
        huge_tree=True,
        collect_ids=False,
        default_doctype=False,
    )
    # All elements are of one class, looked up in C: lxml.html's own lookup calls Python for each.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=HtmlElement))
    return parser


def _main_content(body: HtmlElement, config: HtmlToMarkdownConfig, *, strict: bool) -> tuple[HtmlElement, int]:
    """The main content as an element of its own, and its characters. Unless `strict`, only controls are taken out."""
    simplify_code(body)
    for element in _noise(body, config, strict=strict):
        remove(element)
    measures = _measure(body)
    main = _main(measures)
    content, characters = measures.elements[main], measures.text[main]
    lists = _link_lists(measures, main) if strict else []
    of_lists = sum(measures.text[place] for place in lists)
    if of_lists <= rules.LISTS_SHARE * characters:
        characters -= of_lists
        for place in lists:
            remove(measures.elements[place])
    content.tail = None
    if content is not body:
        heading = _heading_before(measures, main)
        body.clear()
        body.extend([content] if heading is None else [heading, content])
    return body, characters


def _heading_before(measures: _Measures, main: int) -> HtmlElement | None:
    """The main heading, where a page puts it above the element of its content."""
    ends = measures.ends
    inside = any(tag == "h1" for tag in measures.tags[main : ends[main]])
    above = [place for place in range(main) if measures.tags[place] == "h1" and measures.text[place]]
    if inside or len(above) != 1:
        return None
    heading = measures.elements[above[0]]
    heading.tail = None
    return heading


def _noise(body: HtmlElement, config: HtmlToMarkdownConfig, *, strict: bool) -> list[HtmlElement]:
    """The outermost elements that are noise. What holds the main heading or half of the page never is."""
    protected = {around for element in _PROTECTED(body) for around in (element, *element.iterancestors())}
    most = rules.NOISE_SHARE * _CHARACTERS(body)
    found: list[HtmlElement] = []
    upcoming = [body]
    while upcoming:
        parent = upcoming.pop()
        for element in parent:
            tag = element.tag
            if tag == "noscript":
                is_noise = _CHARACTERS(element) < rules.NOSCRIPT_CHARACTERS
            elif tag == "button":
                is_noise = parent.tag not in _HEADINGS
            elif tag == "table" and not config.include_tables:
                is_noise = True
            else:
                is_noise = (
                    (tag == "footer" or (strict and _says_noise(element, tag, config.include_comments)))
                    and element not in protected
                    and _CHARACTERS(element) < most
                )
            if is_noise:
                found.append(element)
            elif tag != "pre":
                upcoming.append(element)
    return found


def _says_noise(element: HtmlElement, tag: str, comments: bool) -> bool:
    """Whether an element is noise by its name or one of its attributes."""
    if tag in rules.NOISE_ELEMENTS:
        return True
    for name in element.keys():  # noqa: SIM118 - an element iterates over its children
        if name in _TELLING:
            meaning = _meaning(name, element.get(name), comments)
            if meaning is _Meaning.noise and (tag not in rules.NEVER_NOISE or name == "role"):
                return True
            if meaning is _Meaning.hidden and _is_small_or_links(element):
                return True
    return False


class _Meaning(Enum):
    """What an attribute says of its element."""

    nothing = 0
    noise = 1
    hidden = 2


@lru_cache(maxsize=1 << 14)
def _meaning(name: str, value: str, comments: bool) -> _Meaning:
    """What an attribute says. The cache is bounded, and can't change an answer."""
    match name:
        case "class" | "id":
            return _Meaning.noise if _names_noise(value, comments) else _Meaning.nothing
        case "role":
            return _Meaning.noise if value in rules.NOISE_ROLES else _Meaning.nothing
        case "style":
            return _Meaning.hidden if "display:none" in value.replace(" ", "") else _Meaning.nothing
        case "aria-hidden":
            return _Meaning.hidden if value == "true" else _Meaning.nothing
    return _Meaning.hidden


def _names_noise(name: str, comments: bool) -> bool:
    """Whether a class or id names furniture."""
    words = {word.lower() for word in _WORDS.findall(name)}
    lower = name.lower()
    return (
        not words.isdisjoint(rules.NOISE_WORDS)
        or (not comments and not words.isdisjoint(rules.COMMENT_WORDS))
        or any(part in lower for part in _PARTS)
    )


def _is_small_or_links(element: HtmlElement) -> bool:
    characters = _CHARACTERS(element)
    links = sum(map(_CHARACTERS, element.iter("a")))
    return bool(characters < rules.HIDDEN_CHARACTERS or links > rules.HIDDEN_LINK_SHARE * characters)


@dataclass(frozen=True)
class _Measures:
    """The elements of a tree in document order, and for each the sums over its subtree, as parallel lists."""

    elements: list[HtmlElement]
    tags: list[str]
    ends: list[int]
    """Place behind the last descendant."""
    text: list[int]
    """Characters of text."""
    links: list[int]
    """Characters of short links."""
    prose: list[int]
    """Characters of long text nodes outside of short links."""


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
    return _Measures(elements, tags, ends, text, links, prose)


def _main(measures: _Measures) -> int:
    """Place of the main content's element: what the page calls so, or else the smallest that has nearly all prose."""
    tags, ends, prose = measures.tags, measures.ends, measures.prose
    place = 0
    for tag, share in (("main", rules.MAIN_SHARE), ("article", rules.ARTICLE_SHARE)):
        named = [inner for inner in range(place, ends[place]) if tags[inner] == tag]
        largest = max(named, key=prose.__getitem__, default=place)
        if prose[largest] >= share * prose[place]:
            place = largest
    while prose[place]:
        least = rules.DESCENT_SHARE * prose[place]
        inner = place + 1
        while inner < ends[place] and prose[inner] < least:
            inner = ends[inner]
        if inner >= ends[place] or tags[inner] in _NOT_A_PAGE:
            break
        place = inner
    return place


def _link_lists(measures: _Measures, main: int) -> list[int]:
    """Places of the outermost blocks in the main content that are lists of links."""
    tags, ends, text, links, prose = measures.tags, measures.ends, measures.text, measures.links, measures.prose
    found: list[int] = []
    most = rules.LIST_PAGE_SHARE * text[main]
    place = main + 1
    while place < ends[main]:
        is_list = (
            text[place] > 0
            and links[place] > rules.LIST_LINK_SHARE * text[place]
            and text[place] < most
            and prose[place] < rules.LIST_PROSE_CHARACTERS
            and tags[place] in _MAY_BE_LISTS
        )
        if is_list:
            found.append(place)
        place = ends[place] if is_list else place + 1
    return found
