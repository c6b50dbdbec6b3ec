"""Which bytes go with a cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages.cuts import Span, blocks_by_document, remove_spans, remove_whole_blocks
from marin_assets_tests.stages import reference


def both(text: bytes, spans: list[Span]) -> str:
    """The text without the spans; the fast path, where it can go, agrees."""
    left = remove_spans(text, spans, blocks_by_document([text])[0])
    assert remove_whole_blocks(text, spans) in {None, left}
    return left.decode()


def cut(marked: str) -> str:
    """Cut what stands between ‹ and ›."""
    text, spans = b"", []
    for index, piece in enumerate(marked.replace("›", "‹").split("‹")):
        if index % 2:
            spans.append((len(text), len(text) + len(piece.encode())))
        text += piece.encode()
    return both(text, spans)


@pytest.mark.parametrize(
    ("marked", "left"),
    [
        # Between paragraphs, one of the two gaps stays.
        ("é\n\n‹X›\n\nB", "é\n\nB"),
        ("A\n\n\n‹X›\n\nB", "A\n\n\nB"),
        ("A\n\n‹X›\n \n\nB", "A\n \n\nB"),
        ("A\n\n‹X›\n\n‹Y›\n\nB", "A\n\nB"),
        ("A\n\n‹X›\n\n\n‹Y›\n\nB", "A\n\n\nB"),
        ("A  \n\n‹X›\n\n    B", "A  \n\n    B"),
        # At the edges.
        ("‹X›\n\nB\n", "B\n"),
        ("\n\n‹X›\n\nB", "\n\nB"),
        ("A\n\n‹X›", "A"),
        ("A\n\n‹X›\n", "A\n"),
        ("A\n\n‹X›\n\n‹Y›\n\n", "A\n\n"),
        # Glued to a heading.
        ("# H\n‹X›\n\nB", "# H\n\nB"),
        ("A\n\n‹X›\n# H", "A\n\n# H"),
        # What a code block kept apart stays apart.
        ("A\n‹```\nx\n\n```›\nB", "A\n\nB"),
        ("A\n‹```\n```›\n---", "A\n\n---"),
        # Lines of one paragraph stay together.
        ("a\n‹x›\nb", "a\nb"),
        ("a\n‹x›\n‹y›\nb", "a\nb"),
        ("# H\n‹x›\nb", "# H\nb"),
        ("a\n‹x›\n\nb", "a\n\nb"),
        # Within a line.
        ("a ‹x› b", "a  b"),
        ("a\n\n‹x› b\n\nc", "a\n\n b\n\nc"),
        ("a\n\nb ‹x›\n\nc", "a\n\nb \n\nc"),
        ("a\n\n  ‹x›  \n\nc", "a\n\nc"),
        ("a ‹x›\n‹y›\n\n  ‹z› c", "a \n\n   c"),
        ("a\n\n‹x› ‹y›\u3000\n\nc", "a\n\nc"),
        ("‹x› a", " a"),
        ("a‹x\n\ny›b", "ab"),
        # Inside a fenced code block blank lines stay.
        ("```\na\n\n‹x›\n\nb\n```", "```\na\n\n\nb\n```"),
        ("```\na\n\n‹x›\n\n‹y›\nb\n```", "```\na\n\n\nb\n```"),
        ("```\n‹x›\n```", "```\n```"),
        # Blank lines elsewhere stay.
        ("a\n\n\n\nb\n\n‹x›\n\nc\n\n\nd", "a\n\n\n\nb\n\nc\n\n\nd"),
    ],
)
def test_a_cut(marked: str, left: str) -> None:
    assert cut(marked) == left


def test_most_cuts_of_paragraphs_are_fast() -> None:
    assert remove_whole_blocks(b"X\n\nA\n\nX\n\nY\n\nB\n\nX", [(0, 1), (6, 7), (9, 10), (15, 16)]) == b"A\n\nB"
    assert remove_whole_blocks(b"A\n\nX", [(0, 4)]) == b""
    assert remove_whole_blocks(b"A\n\nX\nB", [(3, 4)]) is None
    assert remove_whole_blocks(b"```\nA\n\nX\n\nB\n```", [(7, 8)]) is None


spaced_texts = st.lists(st.sampled_from(["a", "é\u3000", "\u3000é", "b\nc", "# H", "", " d", "漢"]), max_size=8).map(
    "\n\n".join
)


@settings(deadline=None, max_examples=200)
@given(spaced_texts, st.data())
def test_the_fast_path_agrees(text: str, data: st.DataObject) -> None:
    found = reference.blocks(text)
    gone = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    both(text.encode(), [(block.start, block.end) for block, goes in zip(found, gone, strict=True) if goes])


@settings(deadline=None, max_examples=400)
@given(reference.markdown_texts, st.data())
def test_cutting_blocks_equals_the_reference(text: str, data: st.DataObject) -> None:
    found = reference.blocks(text)
    gone = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    spans = [(block.start, block.end) for block, goes in zip(found, gone, strict=True) if goes]
    content = text.encode()
    left = both(content, spans)
    if len(spans) == len(found) > 0:
        assert reference.blank(left)
    else:
        assert left == reference.without(text, spans)
    kept = [(block.kind, block.content) for block, goes in zip(found, gone, strict=True) if not goes]
    assert [(block.kind, block.content) for block in reference.blocks(left)] == kept


@settings(deadline=None, max_examples=200)
@given(reference.markdown_texts, st.data())
def test_cutting_lines_leaves_all_other_lines_and_no_more_blank_lines_in_a_row(text: str, data: st.DataObject) -> None:
    found = reference.lines_as_blocks(text)
    gone = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    spans = [(block.start, block.end) for block, goes in zip(found, gone, strict=True) if goes]
    content = text.encode()
    left = both(content, spans)
    kept = [block.content for block, goes in zip(found, gone, strict=True) if not goes]
    assert [block.content for block in reference.lines_as_blocks(left)] == kept
    if kept and "`" not in text and "~" not in text:
        assert longest_blank_run(left) <= max(1, longest_blank_run(text))


def longest_blank_run(text: str) -> int:
    longest = run = 0
    for line in text.split("\n"):
        run = run + 1 if reference.blank(line) else 0
        longest = max(longest, run)
    return longest


@settings(deadline=None, max_examples=200)
@given(reference.any_texts, st.data())
def test_any_spans_cut_at_least_themselves_and_only_white_space_beside(text: str, data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    offsets = [len(text[:place].encode()) for place in places]
    spans = list(zip(offsets[::2], offsets[1::2], strict=False))
    content = text.encode()
    left = both(content, spans)
    plain = "".join(
        text[start:end]
        for start, end in zip([0, *places[1::2]], [*places[: len(spans) * 2 : 2], len(text)], strict=False)
    )
    assert not_blank(left) == not_blank(plain)
    assert len(left) <= len(plain)


def not_blank(text: str) -> str:
    return "".join(character for character in text if character not in reference.WHITE_SPACE)
