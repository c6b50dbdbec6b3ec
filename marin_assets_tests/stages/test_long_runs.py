import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from marin_assets.stages.long_runs import LongRunEncoder
from marin_assets.stages.text_encoder import EngineName, TextEncoder
from marin_assets.stages.tokenizer_file import TokenizerFile
from marin_assets_tests.stages import small_tokenizer

RUN_ALPHABETS = ("ab", "abc", "aé水", "水が", "-=", "'-", "01", " ", " \n", "🙂é")


def random_vocabulary(seed: int, alphabet: str, merges: int) -> Tokenizer:
    """A byte-level BPE with random merges in random order, so that a longer token may come before its parts."""
    chance = random.Random(seed)
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    splits = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    used = sorted({symbol for piece, _ in splits.pre_tokenize_str(alphabet) for symbol in piece})
    pairs: dict[tuple[str, str], None] = {}
    for _ in range(merges):
        pair = (chance.choice(used), chance.choice(used))
        pairs[pair] = None
        used.append("".join(pair))
    ranked = list(pairs)
    chance.shuffle(ranked)
    vocabulary = {token: n for n, token in enumerate(dict.fromkeys([*tokens, *used, small_tokenizer.EOS]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=ranked))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def long_run_encoder(tokenizer: Tokenizer, limit: int) -> LongRunEncoder:
    token_bytes = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for token, token_id in tokenizer.get_vocab().items():
        token_bytes[token_id] = len(token)
    return LongRunEncoder(
        encode=lambda text: np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int32),
        pre_token_starts=lambda text: [a for _, (a, _) in tokenizer.pre_tokenizer.pre_tokenize_str(text)],
        token_bytes=token_bytes,
        limit=limit,
    )


def run_of_tokens(tokenizer: Tokenizer, chance: random.Random, tokens: int) -> str:
    """A run in which long merges happen: random tokens that were made by merges, joined."""
    merged = [token for token in tokenizer.get_vocab() if len(token) > 1 and token != small_tokenizer.EOS]
    decoded: str = decoders.ByteLevel().decode(chance.choices(sorted(merged) or ["a"], k=tokens))
    return decoded.replace("\ufffd", "")


@settings(deadline=None, max_examples=250)
@given(
    seed=st.integers(0, 10**6),
    merges=st.integers(0, 25),
    alphabet=st.sampled_from(RUN_ALPHABETS),
    lengths=st.tuples(st.integers(0, 40), st.integers(0, 200)),
    words=st.lists(st.text(" a'1水-\n", max_size=20), min_size=3, max_size=3),
    limit=st.integers(1, 60),
    margin=st.sampled_from([0, 1, 32]),
)
def test_the_ids_are_those_of_the_whole_text(
    seed: int, merges: int, alphabet: str, lengths: tuple[int, int], words: list[str], limit: int, margin: int
) -> None:
    chance = random.Random(seed)
    tokenizer = random_vocabulary(seed, alphabet, merges)
    runs = [run_of_tokens(tokenizer, chance, lengths[0]), "".join(chance.choices(alphabet, k=lengths[1]))]
    text = words[0] + runs[0] + words[1] + runs[1] + words[2]

    encoder = replace(long_run_encoder(tokenizer, limit), margin=margin)
    assert encoder.token_ids(text).tolist() == tokenizer.encode(text).ids


@pytest.mark.parametrize("alphabet", RUN_ALPHABETS)
def test_a_run_is_encoded_in_parts_of_the_limit(alphabet: str) -> None:
    chance = random.Random(7)
    tokenizer = random_vocabulary(1, alphabet, 12)
    encoder = long_run_encoder(tokenizer, 500)
    lengths = []

    def encode(text: str) -> npt.NDArray[np.int32]:
        lengths.append(len(text))
        return np.array(tokenizer.encode(text).ids, dtype=np.int32)

    text = "".join(chance.choices(alphabet, k=20_000))
    assert replace(encoder, encode=encode).token_ids(text).tolist() == tokenizer.encode(text).ids
    assert max(lengths) <= 500, "no more than the limit is encoded together"
    assert sum(lengths) < 4 * len(text), "and little of it more than once"


def test_pairs_decide_for_any_order_of_the_merges() -> None:
    """The statement of the module's docstring, tried on sequences of random tokens."""
    chance = random.Random(5)
    seen = {True: 0, False: 0}
    for seed in range(150):
        tokenizer = random_vocabulary(seed, "ab", chance.randint(1, 12))
        tokens = [token for token in tokenizer.get_vocab() if set(token) <= {"a", "b"}]
        for _ in range(60):
            sequence = chance.choices(tokens, k=chance.randint(2, 5))
            pairs = pairwise(sequence)
            pairs_are_encodings = all(tokenizer.encode(t + u).tokens == [t, u] for t, u in pairs)
            whole_is_encoding = tokenizer.encode("".join(sequence)).tokens == sequence
            assert pairs_are_encodings == whole_is_encoding
            seen[whole_is_encoding] += 1
    assert min(seen.values()) > 500


@pytest.mark.parametrize("engine", list(EngineName))
def test_both_engines_encode_very_long_runs_as_the_whole(tmp_path: Path, engine: EngineName) -> None:
    path = small_tokenizer.save(tmp_path / "small.json").path
    encoder = TextEncoder.load(path, engine)
    assert encoder.long_runs is not None
    short = replace(encoder, long_runs=replace(encoder.long_runs, limit=1000))
    chance = random.Random(11)
    texts = ["".join(chance.choices(letters, k=30_000)) for letters in ("thecachw", "водатмж", "=-", "水流動山")]
    texts += ["\n" * 5000 + "x", "a word and " + "e" * 5000 + "'s"]
    rows = short.encode_batch([*texts, "short"]).rows()
    assert [row.tolist() for row in rows] == [small_tokenizer.plain_ids(text) for text in [*texts, "short"]]


def test_a_tokenizer_with_other_rules_is_given_long_runs_whole(tmp_path: Path) -> None:
    description = small_tokenizer.description()
    description["model"]["ignore_merges"] = True
    path: TokenizerFile = small_tokenizer.save(tmp_path / "ignoring.json", description)
    assert TextEncoder.load(path.path).long_runs is None
