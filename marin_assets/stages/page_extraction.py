"""One page from what was collected to its row: a pure function of the page and the settings.

Belongs here: the order of the steps, which method a page gets, and the status that each can end with. Runs in a child
process that may be killed, so it touches no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from marin_assets.stages.fast_extraction import extract_fast
from marin_assets.stages.main_content import choose, page_title, parse
from marin_assets.stages.markdown import render, simplify_code
from marin_assets.stages.markup_limits import bound_markup
from marin_assets.stages.maths import keep_tex
from marin_assets.stages.page_decoding import Refused, decode_page
from marin_assets.stages.plain_text import extract_plain_text

if TYPE_CHECKING:
    from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig

MOST_ELEMENTS = {"trafilatura": 15_000, "resiliparse": 60_000}
"""Pages with more start tags are given to `fast` at once: trafilatura takes 45 s for 50,000 linked paragraphs."""
MOST_CHARACTERS = 4_000_000
"""So are longer pages: each library copies a page several times."""
CHEAPER = {"trafilatura": "fast", "resiliparse": "fast", "fast": "plain text"}
"""Which method a page is tried with once more when it exceeded its budget."""


class Status(StrEnum):
    """How a page ended."""

    ok = "ok"
    empty = "empty"
    not_html = "not_html"
    too_large = "too_large"
    timeout = "timeout"
    crashed = "crashed"
    error = "error"


@dataclass(frozen=True)
class PageRequest:
    """What the extraction needs of a page."""

    html: bytes | str
    url: str | None
    config: HtmlToMarkdownConfig
    charset: str | None = None
    """The encoding of `html` by HTTP."""
    cheaper: bool = False
    """Take the next cheaper method than the settings' one."""


@dataclass(frozen=True)
class Extraction:
    """What became of a page. `text` is empty unless the status is `ok`."""

    status: Status
    title: str | None = None
    text: str = ""
    error: str | None = None
    """Why the status is not `ok`; or why, with it, another method than the settings' one made the text."""


def extract_page(request: PageRequest) -> Extraction:
    """The main content of a page as Markdown, or why there is none."""
    config, url = request.config, request.url
    html = decode_page(request.html, config.max_page_bytes, request.charset)
    if isinstance(html, Refused):
        return Extraction(Status(html.refusal.value), error=html.reason)
    page = bound_markup(html)
    method, note = config.extract_method.value, None
    if request.cheaper:
        method = CHEAPER[method]
    elif method in MOST_ELEMENTS:
        if page.tags > MOST_ELEMENTS[method]:
            note = f"{page.tags:,} elements are too many for {method}"
        elif len(page.html) > MOST_CHARACTERS:
            note = f"{len(page.html):,} characters are too many for {method}"
        if note is not None:
            method = CHEAPER[method]
            note += f"; extracted with {method}"
    title, text = _METHODS[method](keep_tex(page.html), url, config)
    if not text.strip():
        return Extraction(Status.empty, title, error="the page has no main content")
    return Extraction(Status.ok, title, _with_title(text, title) if config.prepend_title else text, note)


def _choose_and_render(html: str, url: str | None, config: HtmlToMarkdownConfig) -> tuple[str | None, str]:
    tree = parse(html)
    if tree is None:
        return None, ""
    title = page_title(tree)
    simplify_code(tree)
    content = choose(tree, html, config)
    text = content.own_text or ""
    if content.chosen:
        text = render(tree, content.chosen, content.others, url, config)
    return title, text


_METHODS: dict[str, Callable[[str, str | None, HtmlToMarkdownConfig], tuple[str | None, str]]] = {
    "trafilatura": _choose_and_render,
    "resiliparse": _choose_and_render,
    "fast": extract_fast,
    "plain text": lambda html, _url, _config: extract_plain_text(html),
}
"""Title and text by method."""


def _with_title(text: str, title: str | None) -> str:
    first_line = text.split("\n", 1)[0].lstrip("# ").strip()
    return text if title is None or first_line == title else f"# {title}\n\n{text}"
