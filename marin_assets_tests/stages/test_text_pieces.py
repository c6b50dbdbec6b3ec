import sys
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from marin_assets.stages import text_pieces as text_pieces_module
from marin_assets.stages.text_pieces import text_pieces

GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
AWKWARD = [
    "'",
    "'s",
    "'re",
    "don't",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "\u00a0",
    "\u3000",
    "\u2009",
    "a",
    "Z",
    "é",
    "e\u0301",
]
AWKWARD += ["7", "½", "Ⅷ", "_", "-", "...", "水", "、", "。", "и", "ا", "،", "🙂", "👩‍👩‍👧", "\u200b", "\x1c", "\x85"]
texts = st.lists(st.sampled_from(AWKWARD) | st.text(max_size=3), max_size=40).map("".join)


def split_by_gpt2(text: str) -> list[str]:
    return [text[start:end] for _, (start, end) in GPT2.pre_tokenize_str(text)]


@settings(deadline=None, max_examples=300)
@given(text=texts, limit=st.integers(1, 12))
def test_pieces_are_cut_only_where_gpt2_cuts(text: str, limit: int) -> None:
    pieces = list(text_pieces(text, limit))

    assert "".join(pieces) == text
    assert [part for piece in pieces for part in split_by_gpt2(piece)] == split_by_gpt2(text)


def test_pieces_stay_within_the_limit_where_there_is_a_place_to_cut() -> None:
    text = "words and words, " * 5000 + "x" * 90 + "+/" + "水は流れる。" * 3000

    pieces = list(text_pieces(text, 100))

    assert max(map(len, pieces)) <= 100
    assert len(pieces) < len(text) / 80, "and are not shorter than need be"


def test_a_run_without_a_place_to_cut_stays_whole() -> None:
    run = "a" * 5000
    assert list(text_pieces(f"{run} b", 10)) == [run, " b"]
    assert list(text_pieces(run, 10)) == [run]
    assert list(text_pieces(f"one two {run}", 10)) == ["one two", f" {run}"]


def test_an_empty_text_is_one_empty_piece() -> None:
    assert list(text_pieces("", 10)) == [""]


@pytest.mark.parametrize("window", [1, 2, 7])
def test_the_search_window_does_not_change_the_pieces(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "one two-three four. " * 40
    expected = list(text_pieces(text, 33))
    monkeypatch.setattr(text_pieces_module, "_WINDOW", window)
    assert list(text_pieces(text, 33)) == expected


def test_gpt2_sees_every_letter_and_digit_of_python_as_such() -> None:
    """The rule needs it: what Python calls alphanumeric must end where punctuation begins, and begin where it ends."""
    characters = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isalnum()]
    lines = [f"!{character}!\n" for character in characters]
    starts = list(accumulate(map(len, lines), initial=0))[:-1]
    cuts = {start for _, (start, _) in GPT2.pre_tokenize_str("".join(lines))}
    assert [c for c, start in zip(characters, starts, strict=True) if not {start + 1, start + 2} <= cuts] == []


def test_gpt2_sees_the_listed_punctuation_as_such() -> None:
    listed = [c for c in map(chr, range(0x21, sys.maxunicode + 1)) if text_pieces_module._SAFE_CUT.match(f"a{c}")]
    assert len(listed) > 2000
    assert all(split_by_gpt2(f"!{character}!") == [f"!{character}!"] for character in listed)
