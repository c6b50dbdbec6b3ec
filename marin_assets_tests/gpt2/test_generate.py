"""Generation: greedy, sampled, seeded, stopped by the end of a text, and with or without what was kept."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from marin_assets.errors import SettingsError
from marin_assets.gpt2.config import Gpt2Size
from marin_assets.gpt2.generate import Sampling, context_start, generate
from marin_assets.gpt2.incremental import KeyValueCache
from marin_assets.gpt2.model import Gpt2
from marin_assets_tests.gpt2.corpora import END_OF_TEXT_ID, VOCABULARY_SIZE, byte_tokenizer

GREEDY = Sampling(temperature=0)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(byte_tokenizer(tmp_path / "tokenizer.json")))


@pytest.fixture
def model() -> Gpt2:
    return Gpt2(Gpt2Size(layers=1, heads=2, hidden_size=16), vocabulary_size=VOCABULARY_SIZE, positions=8)


@pytest.fixture
def lively() -> Gpt2:
    """Weights far from zero, so that each token depends on all before it."""
    model = Gpt2(Gpt2Size(layers=3, heads=4, hidden_size=32), vocabulary_size=VOCABULARY_SIZE, positions=12)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def always(model: Gpt2, token: int) -> None:
    """Make one token the likeliest after anything."""
    with torch.no_grad():
        model.final_norm.weight.zero_()
        model.final_norm.bias.fill_(1.0)
        model.token_embedding.weight.zero_()
        model.token_embedding.weight[token] = 5.0


@torch.no_grad()
def without_cache(model: Gpt2, ids: list[int], sampling: Sampling, count: int) -> list[int]:
    """Reference: reads the whole context again for every token."""
    generator = torch.Generator().manual_seed(sampling.seed)
    ids = list(ids)
    for _ in range(count):
        context = torch.tensor([ids[context_start(len(ids), model.positions) :]])
        ids.append(sampling.choose(model.logits(model(context)[0, -1]), generator))
    return ids[-count:]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(1.5, seed=3), Sampling(0.9, top_k=20, top_p=0.8, seed=5)])
@pytest.mark.parametrize("prompt", ["a", "elevenchars", "a prompt that is longer than all positions"])
def test_the_tokens_are_those_of_reading_all_again(
    lively: Gpt2, tokenizer: Tokenizer, prompt: str, sampling: Sampling
) -> None:
    expected = without_cache(lively, tokenizer.encode(prompt).ids, sampling, 40)
    assert generate(lively, tokenizer, prompt, sampling, max_new_tokens=40) == tokenizer.decode(
        expected, skip_special_tokens=False
    )
    assert len(set(expected)) > 3


@torch.no_grad()
def test_the_scores_with_the_cache_are_those_of_the_model(lively: Gpt2) -> None:
    ids = torch.tensor([5, 80, 3, 200, 17, 80, 1])
    whole = lively.logits(lively(ids[None])[0])
    cache = KeyValueCache(lively)
    torch.testing.assert_close(cache.read(ids[:3]), whole[2], rtol=0, atol=2e-5)
    for place in range(3, len(ids)):
        torch.testing.assert_close(cache.read(ids[place : place + 1]), whole[place], rtol=0, atol=2e-5)


def test_more_than_the_positions_cannot_be_read(lively: Gpt2) -> None:
    with pytest.raises(ValueError, match="cannot read 13 tokens after 0 of 12"):
        KeyValueCache(lively).read(torch.zeros(13, dtype=torch.int64))


@given(st.integers(1, 40), st.integers(1, 400))
@settings(deadline=None)
def test_the_context_is_at_least_half_of_what_fits(positions: int, length: int) -> None:
    start = context_start(length, positions)
    assert 0 <= start < length
    assert length - start <= positions
    assert start == 0 or length - start > positions - max(1, positions // 2)


def test_greedy_takes_the_likeliest_token_each_time(model: Gpt2, tokenizer: Tokenizer) -> None:
    always(model, tokenizer.encode("x").ids[0])
    assert generate(model, tokenizer, "ab", GREEDY, max_new_tokens=20) == "x" * 20


def test_it_stops_at_the_end_of_the_text(model: Gpt2, tokenizer: Tokenizer) -> None:
    always(model, END_OF_TEXT_ID)
    assert generate(model, tokenizer, "ab", Sampling(), max_new_tokens=5, end_of_text=END_OF_TEXT_ID) == ""


def test_a_seed_decides_the_text_and_the_random_state_stays(model: Gpt2, tokenizer: Tokenizer) -> None:
    before = torch.get_rng_state()
    texts = [generate(model, tokenizer, "ab", Sampling(seed=seed), max_new_tokens=30) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("narrow", [Sampling(2.0, top_k=1), Sampling(2.0, top_p=1e-9)])
def test_a_choice_among_one_is_greedy(lively: Gpt2, tokenizer: Tokenizer, narrow: Sampling) -> None:
    greedy = generate(lively, tokenizer, "ab", GREEDY, max_new_tokens=10)
    assert generate(lively, tokenizer, "ab", narrow, max_new_tokens=10) == greedy


@pytest.mark.parametrize(
    ("sampling", "possible"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(top_k=3), {0, 1, 3}),
        (Sampling(top_p=0.7), {0, 3}),  # 0.5, and the token that crosses 0.7
        (Sampling(top_p=0.5), {3}),
        (Sampling(top_k=2, top_p=0.7), {0, 3}),
    ],
)
def test_only_the_likeliest_tokens_are_chosen(sampling: Sampling, possible: set[int]) -> None:
    logits = torch.tensor([0.3, 0.12, 0.08, 0.5]).log()
    generator = torch.Generator().manual_seed(0)
    assert {sampling.choose(logits, generator) for _ in range(300)} == possible


def test_tokens_are_chosen_as_often_as_they_are_likely() -> None:
    logits = torch.tensor([0.1, 0.6, 0.3]).log()
    generator = torch.Generator().manual_seed(0)
    chosen = torch.tensor([Sampling().choose(logits, generator) for _ in range(4000)])
    torch.testing.assert_close(chosen.bincount() / 4000, logits.exp(), rtol=0, atol=0.03)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; give 0 for the likeliest token"),
        ({"top_k": -1}, "top_k is -1; give the number of tokens"),
        ({"top_p": 0.0}, "top_p is 0.0; give a probability above 0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
    ],
)
def test_sampling_that_chooses_nothing_is_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Sampling(**values)  # type: ignore[arg-type]


def test_a_model_in_training_stays_in_training(model: Gpt2, tokenizer: Tokenizer) -> None:
    model.train()
    generate(model, tokenizer, "ab", Sampling(), max_new_tokens=1)
    assert model.training


def test_an_empty_prompt_starts_from_the_end_of_a_text(lively: Gpt2, tokenizer: Tokenizer) -> None:
    assert generate(lively, tokenizer, "", GREEDY, max_new_tokens=3, end_of_text=END_OF_TEXT_ID)
    with pytest.raises(SettingsError, match="the prompt is empty"):
        generate(lively, tokenizer, "", GREEDY, max_new_tokens=3)
