import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from marin_assets.errors import InputError
from marin_assets.stages.text_encoder import TextEncoder, threads_are_ours
from marin_assets_tests.stages import small_tokenizer
from marin_assets_tests.stages.small_tokenizer import EOS


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return TextEncoder.load(small_tokenizer.save(tmp_path_factory.mktemp("tokenizer") / "small.json").path)


def load(path: Path, change: Callable[[dict[str, Any]], object]) -> TextEncoder:
    """The small tokenizer with a change to its description."""
    description = small_tokenizer.description()
    change(description)
    return TextEncoder.load(small_tokenizer.save(path / "changed.json", description).path)


def ids(encoder: TextEncoder, text: str) -> list[int]:
    return list(map(int, encoder.encode_batch([text]).token_ids))


def test_it_encodes_as_the_library_does(encoder: TextEncoder) -> None:
    texts = [*small_tokenizer.SENTENCES, "", " ", "🙂 unseen Ω"]
    batch = encoder.encode_batch(texts)
    assert [row.tolist() for row in batch.rows()] == [small_tokenizer.plain_ids(text) for text in texts]
    assert batch.token_ids.dtype == np.int32


def test_the_vocabulary_is_told(encoder: TextEncoder) -> None:
    assert encoder.vocabulary.vocabulary_size == 400
    assert encoder.vocabulary.eos_token == EOS
    assert encoder.vocabulary.eos_id == Tokenizer.from_str(small_tokenizer.small_tokenizer_json()).token_to_id(EOS)


@pytest.mark.parametrize("token", [EOS, "<|note|>"])
def test_a_special_token_in_a_text_is_text(encoder: TextEncoder, token: str) -> None:
    encoded = ids(encoder, f"before{token}after")

    by_characters = [part for text in ("before", "<|", token[2:-2], "|>", "after") for part in ids(encoder, text)]
    assert encoded == by_characters
    assert small_tokenizer.decode(encoded) == f"before{token}after"


def test_a_text_never_yields_eos_even_where_the_file_does_not_call_it_special(tmp_path: Path) -> None:
    def not_special(description: dict[str, Any]) -> None:
        for token in description["added_tokens"]:
            token["special"] = False

    encoder = load(tmp_path, not_special)
    assert encoder.vocabulary.eos_id not in ids(encoder, f"a{EOS}b")
    assert ids(encoder, "<|note|>") == [1], "other added tokens are part of the vocabulary"
    assert list(encoder.pieces("a <|note|> b " * 9, 5)) == ["a <|note|> b " * 9], "and could be cut in two"


def test_nothing_is_added_cut_or_padded(tmp_path: Path) -> None:
    def busy(description: dict[str, Any]) -> None:
        tokenizer = Tokenizer.from_str(small_tokenizer.small_tokenizer_json())
        tokenizer.enable_truncation(4)
        tokenizer.enable_padding(length=32)
        description["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
        description["padding"] = {
            "strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": EOS,
        }  # fmt: skip
        description["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|note|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<|note|>": {"id": "<|note|>", "ids": [1], "tokens": ["<|note|>"]}},
        }

    text = small_tokenizer.SENTENCES[0]
    assert ids(load(tmp_path, busy), text) == small_tokenizer.plain_ids(text)


def test_dropout_is_switched_off(tmp_path: Path) -> None:
    encoder = load(tmp_path, lambda description: description["model"].update(dropout=0.9))
    text = small_tokenizer.SENTENCES[0]
    assert ids(encoder, text) == small_tokenizer.plain_ids(text)


AWKWARD = ["'re", "don't", " ", "  ", "\n", "\u00a0", "é", "e\u0301", "7", "_", "-", "水", "、", "🙂", EOS, "the cache"]


@settings(deadline=None, max_examples=150)
@given(
    text=st.lists(st.sampled_from(AWKWARD) | st.text(max_size=3), max_size=30).map("".join), limit=st.integers(1, 10)
)
def test_the_ids_of_the_pieces_are_those_of_the_whole(encoder: TextEncoder, text: str, limit: int) -> None:
    pieces = encoder.encode_batch(list(encoder.pieces(text, limit)))
    assert pieces.token_ids.tolist() == small_tokenizer.plain_ids(text)


def set_prefix_space(description: dict[str, Any]) -> None:
    description["pre_tokenizer"]["add_prefix_space"] = True


def set_normalizer(description: dict[str, Any]) -> None:
    description["normalizer"] = {"type": "NFC"}


def set_other_splits(description: dict[str, Any]) -> None:
    description["pre_tokenizer"]["use_regex"] = False


@pytest.mark.parametrize("change", [set_prefix_space, set_normalizer, set_other_splits])
def test_a_tokenizer_that_splits_otherwise_gets_texts_whole(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    text = "one two three " * 9
    assert list(load(tmp_path, change).pieces(text, 10)) == [text]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("no json", "not JSON"),
        ("[]", "has no `model`"),
        ('{"a": 0, "b": 1}', "has no `model`"),
        ('{"model": {"type": "BPE", "vocab": 3}}', "not a tokenizer"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(InputError, match=f"broken.json: .*{says}"):
        TextEncoder.load(path)


def word_level(path: Path, vocabulary: dict[str, int]) -> Path:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return path


def test_a_tokenizer_without_an_end_of_sequence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the end-of-sequence tokens <\|endoftext\|>, </s>"):
        TextEncoder.load(word_level(tmp_path / "words.json", {"<unk>": 0, "a": 1}))


def test_other_names_of_the_end_of_sequence_are_known_and_ids_may_have_gaps(tmp_path: Path) -> None:
    vocabulary = TextEncoder.load(word_level(tmp_path / "words.json", {"<unk>": 0, "a": 1, "</s>": 7})).vocabulary
    assert (vocabulary.eos_token, vocabulary.eos_id, vocabulary.vocabulary_size) == ("</s>", 7, 8)


def test_a_byte_level_vocabulary_that_would_lose_characters_is_refused(tmp_path: Path) -> None:
    def lose_z(description: dict[str, Any]) -> None:
        model = description["model"]
        del model["vocab"]["Z"]
        model["merges"] = [pair for pair in model["merges"] if "Z" not in "".join(pair)]

    with pytest.raises(InputError, match=r"no token for 1 of the bytes .* 0x5a"):
        load(tmp_path, lose_z)


@pytest.mark.parametrize("before", [None, "true"])
def test_the_librarys_threads_are_off_only_while_asked(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TOKENIZERS_PARALLELISM"
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)
    with threads_are_ours():
        assert os.environ[name] == "false"
    assert os.environ.get(name) == before
