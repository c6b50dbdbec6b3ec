"""What a paragraph is."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from marin_assets.stages.paragraphs import FENCE, HEADING, TEXT, WHITE_SPACE, Blocks, split_blocks, split_lines
from marin_assets_tests.stages import reference

KINDS = {TEXT: "text", HEADING: "heading", FENCE: "fence"}


def listed(texts: list[str], found: Blocks) -> list[list[tuple[str, str]]]:
    """Kind and content of the blocks of each text."""
    result: list[list[tuple[str, str]]] = [[] for _ in texts]
    for document, start, end, kind in zip(found.documents, found.starts, found.ends, found.kinds, strict=True):
        result[document].append((KINDS[kind], texts[document].encode()[start:end].decode()))
    return result


def blocks(text: str) -> list[tuple[str, str]]:
    return listed([text], split_blocks([text.encode()]))[0]


def test_blank_lines_separate_paragraphs() -> None:
    assert blocks("one\ntwo\n\n\nthree\n") == [("text", "one\ntwo"), ("text", "three")]


@pytest.mark.parametrize("line", ["", " ", "\t", "\u00a0", "\u3000\u2003", "\u2028", "\r", " \u1680\v"])
def test_a_line_of_unicode_white_space_is_blank(line: str) -> None:
    assert blocks(f"one\n{line}\ntwo") == [("text", "one"), ("text", "two")]


def test_zero_width_characters_are_not_white_space() -> None:
    assert blocks("one\n\u200b\ntwo") == [("text", "one\n\u200b\ntwo")]


def test_a_line_separator_does_not_end_a_line() -> None:
    assert blocks("one\u2028# two\x85three") == [("text", "one\u2028# two\x85three")]


def test_headings_and_thematic_breaks_are_blocks_even_when_glued_to_text() -> None:
    assert blocks("# Title\ntext\n***\nmore\n## Next #") == [
        ("heading", "# Title"),
        ("text", "text"),
        ("heading", "***"),
        ("text", "more"),
        ("heading", "## Next #"),
    ]


@pytest.mark.parametrize("line", ["#hashtag", "####### seven", "    # code", "\\# escaped", "**", "* * a", "    ***"])
def test_what_looks_like_a_heading_or_break_and_is_none(line: str) -> None:
    assert blocks(line) == [("text", line)]


def test_a_setext_heading_takes_the_whole_run_above_it() -> None:
    assert blocks("two\nlines\n---\ntext\n\nTitle\n===") == [
        ("heading", "two\nlines\n---"),
        ("text", "text"),
        ("heading", "Title\n==="),
    ]


@pytest.mark.parametrize("above", ["- item", "> quote", "| a |", "    code", "3) three"])
def test_no_setext_heading_below_lists_quotes_tables_and_code(above: str) -> None:
    assert blocks(f"{above}\n---\nx") == [("text", above), ("heading", "---"), ("text", "x")]
    assert blocks(f"{above}\n===\n===") == [("text", f"{above}\n===\n===")]


def test_a_table_is_one_paragraph() -> None:
    table = "| a | b |\n|---|---|\n| 1 | é |"
    assert blocks(f"{table}\n\nend") == [("text", table), ("text", "end")]


@pytest.mark.parametrize(
    "fence",
    [
        "```\na\n\nb\n```",
        "~~~ python\n# no heading\n\n```\n~~~",
        "````\n```\n\n```\n````",
        "   ```\na\n\n   ```",
        "```\n    ```\n\n```",
        "``` \na\n\n`````  ",
        "    ```\n    in a list\n\n    ```",
        "- ```sh\n  a\n\n  b\n  ```",
        "12. ~~~\n    a\n\n    ~~~",
        "> ```\n> a\n>\n> b\n> ```",
    ],
)
def test_a_fenced_code_block_is_one_block_with_its_blank_lines(fence: str) -> None:
    assert blocks(f"text\n{fence}\nmore") == [("text", "text"), ("fence", fence), ("text", "more")]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert blocks("```\na\n\n# b\n\n") == [("fence", "```\na\n\n# b")]


def test_a_fence_in_a_quote_ends_with_the_quote() -> None:
    assert blocks("> ```\n> a\ntext\n\nmore") == [("fence", "> ```\n> a"), ("text", "text"), ("text", "more")]


def test_a_fence_in_a_list_item_that_is_never_closed_there_is_text() -> None:
    assert blocks("- ```\n  a\n\n  b") == [("text", "- ```\n  a"), ("text", "  b")]
    assert blocks("- ```\n  a\n\n```\nb\n```") == [("text", "- ```\n  a"), ("fence", "```\nb\n```")]
    assert blocks("    ```\n\ntext\n\n```\nb\n\n```") == [
        ("text", "    ```"),
        ("text", "text"),
        ("fence", "```\nb\n\n```"),
    ]


def test_backticks_in_the_info_string_make_it_inline_code() -> None:
    assert blocks("``` a ``` b\n\nc") == [("text", "``` a ``` b"), ("text", "c")]


def test_a_fence_never_reaches_into_the_next_document() -> None:
    texts = ["```\nopen", "", "text\n\n```", "# x"]
    assert listed(texts, split_blocks([text.encode() for text in texts])) == [
        [("fence", "```\nopen")],
        [],
        [("text", "text"), ("fence", "```")],
        [("heading", "# x")],
    ]


def test_no_documents() -> None:
    assert len(split_blocks([]).starts) == len(split_lines([]).starts) == 0


def test_white_space_is_the_unicode_property() -> None:
    assert sorted(WHITE_SPACE) == sorted(reference.WHITE_SPACE)
    assert len(WHITE_SPACE) == 25


@settings(deadline=None, max_examples=600)
@given(st.lists(reference.markdown_texts, max_size=4))
def test_blocks_equal_those_of_a_parser_that_goes_line_by_line(texts: list[str]) -> None:
    found = listed(texts, split_blocks([text.encode() for text in texts]))
    assert found == [[(block.kind, block.content) for block in reference.blocks(text)] for text in texts]


_PLAIN_LINES = ["", "", "a", "é", "# T", "#x", "===", "---", "***", "- - -", "```", "```x", "~~~", "~~~~", "  ```"]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(_PLAIN_LINES), max_size=12))
def test_without_containers_fences_and_headings_are_those_of_commonmark(lines: list[str]) -> None:
    text = "\n".join(lines)
    tokens = [token for token in MarkdownIt("commonmark").parse(text) if token.level == 0 and token.map]
    names = {"fence": "fence", "heading_open": "heading", "hr": "heading"}
    expected = [(names[token.type], token.map[0]) for token in tokens if token.type in names and token.map]
    found = split_blocks([text.encode()])
    first_lines = [text.encode()[:start].count(b"\n") for start in found.starts.tolist()]
    kinds = [KINDS[kind] for kind in found.kinds.tolist()]
    assert [(kind, line) for kind, line in zip(kinds, first_lines, strict=True) if kind != "text"] == expected


@settings(deadline=None, max_examples=100)
@given(st.lists(reference.markdown_texts, max_size=4))
def test_each_non_blank_line_is_a_block_in_line_mode(texts: list[str]) -> None:
    found = listed(texts, split_lines([text.encode() for text in texts]))
    assert found == [[("text", block.content) for block in reference.lines_as_blocks(text)] for text in texts]


@pytest.mark.parametrize(
    "line",
    ["===\n", "> a\n===\n", "- ```\n", "```\n", "> ```\n", "---\n", " " * 127 + "\n", "- - - - a\n", "~~~\n```\n"],
)
def test_time_grows_with_length_only(line: str) -> None:
    text = (line * (400_000 // len(line))).encode()
    started = time.process_time()
    split_blocks([text])
    assert time.process_time() - started < 5
