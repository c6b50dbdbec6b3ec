"""What a person can read about the repeated paragraphs."""

import json
from pathlib import Path

import polars as pl
from markdown_it import MarkdownIt

from marin_assets.artifacts.artifact import Artifact
from marin_assets.stages.exact_paragraph_dedup import ExactParagraphDedupConfig, exact_paragraph_dedup
from marin_assets.stages.tables import part_name
from marin_assets_tests.artifacts import in_memory
from marin_assets_tests.stages import documents


def run(directory: Path, source: Artifact, earlier: list[Artifact] | None = None) -> Artifact:
    out = in_memory.writer(directory)
    exact_paragraph_dedup(source, ExactParagraphDedupConfig(workers=1), out, earlier=earlier or [])
    return in_memory.published(out)


def with_urls(directory: Path, texts: list[str], urls: list[str | None]) -> Artifact:
    out = in_memory.writer(directory)
    ids = [documents.name(number) for number in range(len(texts))]
    name = part_name(0, 1)
    pl.DataFrame({"id": ids, "source_id": [f"s{one}" for one in ids], "url": urls, "text": texts}).write_parquet(
        out.path(name)
    )
    out.add(name)
    return in_memory.published(out)


def test_the_most_repeated_come_first_with_the_place_of_their_first_copy(tmp_path: Path) -> None:
    frequent = "é" * 300
    texts = [f"p{number}\n\np{number}\n\n{frequent}" for number in range(30)]
    report = json.loads(
        run(tmp_path / "out", documents.published(tmp_path / "in", ["first"], texts)).path("report.json").read_text()
    )
    assert report["totals"]["paragraphs_duplicate"] == 59
    assert report["earlier_corpora"] == []
    assert len(report["most_repeated"]) == 20
    first, second = report["most_repeated"][:2]
    assert first == {
        "copies": 30,
        "removed": 29,
        "bytes": 600,
        "begins": "é" * 200,
        "first_copy": {"id": documents.name(1), "source_id": "s0", "url": None},
        "earlier_corpus": None,
    }
    assert (second["copies"], second["removed"], second["bytes"], second["begins"]) == (2, 1, 3, "p10")


def test_the_page_says_what_is_removed_and_where_the_first_copy_is(tmp_path: Path) -> None:
    source = with_urls(tmp_path / "in", ["one two\n\nown", "one two\n\none two"], ["https://example.org/a?b=c", None])
    page = run(tmp_path / "out", source).path("report.md").read_text()
    assert "| **to be removed** | 2 | 14 |" in page
    assert "### 1. 3 × 7 bytes, 2 to be removed" in page
    first = documents.name(0)
    assert f"First copy here: id `{first}`, source_id `s{first}`, url `https://example.org/a?b=c`." in page
    assert "earlier" not in page


def test_the_page_names_the_earlier_corpus(tmp_path: Path) -> None:
    old = run(tmp_path / "old", documents.published(tmp_path / "a", ["known\n\nmore"]))
    new = run(tmp_path / "new", documents.published(tmp_path / "b", ["known"]), [old])
    (corpus,) = json.loads(new.path("report.json").read_text())["earlier_corpora"]
    page = new.path("report.md").read_text()
    assert corpus["paragraphs"] == 2
    assert f"An earlier corpus has it: `{corpus['digest']}`." in page
    assert "| of these, in earlier corpora | 1 | 5 |" in page
    assert "### 1. 1 × 5 bytes, 1 to be removed" in page


def test_a_corpus_without_repeats(tmp_path: Path) -> None:
    page = run(tmp_path / "out", documents.published(tmp_path / "in", ["a", "# b"])).path("report.md").read_text()
    assert page.endswith("\nNothing is repeated.\n")


def test_no_text_or_url_escapes_from_its_place(tmp_path: Path) -> None:
    texts = ["````md\n```\n# x\n```\n````", "<script>alert(1)</script> | a\n]( http://x ) ~~~\n`` ` ", "a\u202eb\u200b"]
    urls = ["`<b>`", "a`b``c\n# d", "|x|\u202e"]
    source = with_urls(
        tmp_path / "in", [text for text in texts for _ in range(2)], [url for url in urls for _ in range(2)]
    )
    page = run(tmp_path / "out", source).path("report.md").read_text()
    tokens = MarkdownIt("commonmark").parse(page)
    shown = [token.content.rstrip("\n") for token in tokens if token.type == "fence"]
    assert sorted(shown) == sorted([texts[0], texts[1], "a\\u{202e}b\\u{200b}"])
    assert {token.type for token in tokens if token.level == 0} <= {
        *("heading_open", "heading_close", "inline", "paragraph_open", "paragraph_close", "fence"),
    }
    inline = [child for token in tokens for child in token.children or []]
    assert {child.type for child in inline} <= {"text", "code_inline", "strong_open", "strong_close", "softbreak"}
    codes = [child.content for child in inline if child.type == "code_inline"]
    assert {"`<b>`", "a`b``c\\u{a}# d", "|x|\\u{202e}"} <= set(codes)
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h3", "h3", "h3"]
