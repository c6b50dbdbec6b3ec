"""One page from what was collected to its row: a pure function of the page and the settings.

Belongs here: the order of the steps, and the status that each can end with. Runs in a child process that may be
killed, so it touches no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from marin_assets.stages.main_content import choose, page_title, parse
from marin_assets.stages.markdown import render, simplify_code
from marin_assets.stages.page_decoding import Refused, decode_page

if TYPE_CHECKING:
    from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig


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


@dataclass(frozen=True)
class Extraction:
    """What became of a page. `text` is empty unless the status is `ok`."""

    status: Status
    title: str | None = None
    text: str = ""
    error: str | None = None


def extract_page(request: PageRequest) -> Extraction:
    """The main content of a page as Markdown, or why there is none."""
    config = request.config
    html = decode_page(request.html, config.max_page_bytes)
    if isinstance(html, Refused):
        return Extraction(Status(html.refusal.value), error=html.reason)
    tree = parse(html)
    if tree is None:
        return Extraction(Status.not_html, error="no HTML element could be parsed")
    title = page_title(tree)
    simplify_code(tree)
    content = choose(tree, html, config)
    text = content.own_text or ""
    if content.chosen:
        text = render(tree, content.chosen, content.others, request.url, config)
    if not text.strip():
        return Extraction(Status.empty, title, error="the page has no main content")
    return Extraction(Status.ok, title, _with_title(text, title) if config.prepend_title else text)


def _with_title(text: str, title: str | None) -> str:
    first_line = text.split("\n", 1)[0].lstrip("# ").strip()
    return text if title is None or first_line == title else f"# {title}\n\n{text}"
