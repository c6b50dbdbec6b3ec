"""All text of a page, block by block: the last resort for a page that every extractor fails on.

Belongs here: the cheapest reading of a page that there is. Does not: any choice among its texts.
"""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from marin_assets.stages import fast_rules as rules
from marin_assets.stages.markdown_blocks import INLINE

_LINE_PARTS = sorted((INLINE - {"br", "img"}) | {"span", "font", "small", "big", "sub", "sup", "u", "mark", "abbr"})


def extract_plain_text(html: str) -> tuple[str | None, str]:
    """The page's title, and its text with blank lines between blocks."""
    page = LexborHTMLParser(html)
    head = page.css_first("title")
    title = " ".join(head.text().split()) if head is not None else ""
    page.strip_tags([*rules.WITHOUT_TEXT, "nav", "noscript"])
    if page.body is None:
        return title or None, ""
    page.unwrap_tags(_LINE_PARTS)
    page.merge_text_nodes()
    blocks = (" ".join(block.split()) for block in page.body.text(separator="\0").split("\0"))
    return title or None, "\n\n".join(filter(None, blocks))
