"""Generation: greedy, sampled, seeded, and stopped by the end of a text."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from marin_assets.gpt2.config import Gpt2Size
from marin_assets.gpt2.generate import generate
from marin_assets.gpt2.model import Gpt2
from marin_assets_tests.gpt2.corpora import END_OF_TEXT_ID, VOCABULARY_SIZE, byte_tokenizer


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(byte_tokenizer(tmp_path / "tokenizer.json")))


@pytest.fixture
def model() -> Gpt2:
    return Gpt2(Gpt2Size(layers=1, heads=2, hidden_size=16), vocabulary_size=VOCABULARY_SIZE, positions=8)


def always(model: Gpt2, token: int) -> None:
    """Make one token the likeliest after anything."""
    with torch.no_grad():
        model.final_norm.weight.zero_()
        model.final_norm.bias.fill_(1.0)
        model.token_embedding.weight.zero_()
        model.token_embedding.weight[token] = 5.0


def test_greedy_takes_the_likeliest_token_each_time(model: Gpt2, tokenizer: Tokenizer) -> None:
    always(model, tokenizer.encode("x").ids[0])
    assert generate(model, tokenizer, "ab", max_new_tokens=20, temperature=0) == "x" * 20


def test_it_stops_at_the_end_of_the_text(model: Gpt2, tokenizer: Tokenizer) -> None:
    always(model, END_OF_TEXT_ID)
    assert generate(model, tokenizer, "ab", max_new_tokens=5, end_of_text=END_OF_TEXT_ID) == ""


def test_a_seed_decides_the_text_and_the_random_state_stays(model: Gpt2, tokenizer: Tokenizer) -> None:
    before = torch.get_rng_state()
    texts = [generate(model, tokenizer, "ab", max_new_tokens=30, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_top_k_of_one_is_greedy(model: Gpt2, tokenizer: Tokenizer) -> None:
    greedy = generate(model, tokenizer, "ab", max_new_tokens=10, temperature=0)
    assert generate(model, tokenizer, "ab", max_new_tokens=10, temperature=2.0, top_k=1) == greedy


def test_a_model_in_training_stays_in_training(model: Gpt2, tokenizer: Tokenizer) -> None:
    model.train()
    generate(model, tokenizer, "ab", max_new_tokens=1)
    assert model.training


def test_an_empty_prompt_starts_from_the_end_of_a_text(model: Gpt2, tokenizer: Tokenizer) -> None:
    assert generate(model, tokenizer, "", max_new_tokens=3, temperature=0, end_of_text=END_OF_TEXT_ID)
    with pytest.raises(ValueError, match="the prompt is empty"):
        generate(model, tokenizer, "", max_new_tokens=3)
