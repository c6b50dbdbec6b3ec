"""The numbers that the quick start must give, against what its pages say, in plain Python.

The pages' blocks are written as Markdown here, as a perfect extraction would, and taken through the semantics of the
stages by the shortest code there is.
"""

import unicodedata
from collections import Counter

import pytest

from fixtures import build_pages
from fixtures.page_blocks import (
    Block,
    BulletList,
    Code,
    Figure,
    Heading,
    NumberedList,
    Page,
    Paragraph,
    Quote,
    Rule,
    Stanza,
    Table,
)
from marin_assets_tests.quickstart_expected import (
    DUPLICATE_SPANS_ACROSS_DOCUMENTS,
    DUPLICATE_SPANS_OF_20_CHARACTERS,
    EXPECTED,
)
from marin_assets_tests.quickstart_reference import duplicate_spans, paragraphs

COPIES = {
    "copy-of-recipes-00": "recipes-00",
    "copy-of-news-01": "news-01",
    "second-copy-of-news-01": "news-01",
    "science-00-elsewhere": "science-00",
    "travel-02-elsewhere": "travel-02",
    "languages-vi-decomposed": "languages-vi",
    "cafe-windows-1252.html": "languages-fr",
    "tokeiya-shift-jis.html": "languages-ja",
    "stancija-utf-16.html": "languages-ru",
}
FILES_ONLY = {
    "duchuan-cut.htm": "languages-zh",
    "zug-utf-8-bom.html": "languages-de",
    "snow-unclosed.html": "faqs-05",
}
STATUS_OF_NOTHING = {
    "nothing": "empty",
    "white-space": "empty",
    "shell": "empty",
    "empty.html": "empty",
    "blank.html": "empty",
    "report": "not_html",
    "report.html": "not_html",
    "picture.htm": "not_html",
}
BLOCKS_BEFORE_THE_CUT = {"news-09": 4, "languages-zh": 4}


def markdown_of_block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return "#" * level + " " + text
        case Paragraph(text):
            return text
        case Stanza(lines):
            return "  \n".join(lines)
        case BulletList(items, title, inner):
            nested = [f"- {title}", *(f"  - {item}" for item in inner)] if title else []
            return "\n".join([*(f"- {item}" for item in items), *nested])
        case NumberedList(items, start):
            return "\n".join(f"{number}. {item}" for number, item in enumerate(items, start))
        case Table(header, rows):
            return "\n".join("| " + " | ".join(row) + " |" for row in (header, ("---",) * len(header), *rows))
        case Code(language, text):
            return f"```{language}\n{text}```"
        case Quote(text):
            return "> " + text
        case Rule():
            return "---"
        case Figure():
            return ""


def markdown_of(page: Page) -> str:
    blocks = page.blocks[: BLOCKS_BEFORE_THE_CUT.get(page.name)]
    return "\n\n".join(filter(None, map(markdown_of_block, blocks))) + "\n"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Markdown of each page of the quick start, by the name of its record or file; empty where there is nothing."""
    articles = build_pages.article_pages()
    by_page = {page.name: markdown_of(page) for page in [*articles.values(), *build_pages.collected_pages()]}
    names = [record.name for record in build_pages.records(articles)] + list(build_pages.html_files(articles))
    return {
        name: "" if name in STATUS_OF_NOTHING else by_page[FILES_ONLY.get(name, COPIES.get(name, name))]
        for name in names
    }


@pytest.fixture(scope="module")
def documents(texts: dict[str, str]) -> list[str]:
    """What normalization leaves: text in NFC, without blanks and exact duplicates."""
    return list(dict.fromkeys(unicodedata.normalize("NFC", text) for text in texts.values() if text))


def kept_by_consolidation(documents: list[str]) -> list[str]:
    """Documents that have a heading or a paragraph that did not stand before."""
    seen: set[str] = set()
    kept = []
    for text in documents:
        if text.startswith("# ") or not seen.issuperset(paragraphs(text)):
            kept.append(text)
        seen.update(paragraphs(text))
    return kept


def test_pages_and_their_statuses(texts: dict[str, str]) -> None:
    statuses = Counter(STATUS_OF_NOTHING.get(name, "ok") for name in texts)
    assert len(texts) == EXPECTED.pages
    assert statuses == EXPECTED.pages_by_status
    assert EXPECTED.rows_blank == statuses.total() - statuses["ok"]


def test_exact_duplicates(texts: dict[str, str], documents: list[str]) -> None:
    assert len(documents) == EXPECTED.documents
    assert EXPECTED.rows_duplicate == len(COPIES)
    assert EXPECTED.documents == EXPECTED.pages - EXPECTED.rows_blank - EXPECTED.rows_duplicate


def test_paragraphs_and_repeated_ones(documents: list[str]) -> None:
    assert sum(len(paragraphs(text)) for text in documents) == EXPECTED.paragraphs
    assert duplicate_spans(documents) == EXPECTED.duplicate_spans


def test_repeats_in_one_document_and_short_ones(documents: list[str]) -> None:
    within = sum(len(blocks) - len(set(blocks)) for blocks in map(paragraphs, documents))
    assert EXPECTED.duplicate_spans - within == DUPLICATE_SPANS_ACROSS_DOCUMENTS
    long = ("\n\n".join(block for block in paragraphs(text) if len(block) >= 20) for text in documents)
    assert duplicate_spans(long) == DUPLICATE_SPANS_OF_20_CHARACTERS


@pytest.mark.parametrize("order", [1, -1])
def test_documents_that_consolidation_drops_in_any_order(documents: list[str], order: int) -> None:
    kept = kept_by_consolidation(documents[::order])
    assert len(kept) == EXPECTED.documents_consolidated == EXPECTED.documents_tokenized
    assert EXPECTED.documents_dropped == len(documents) - len(kept)
