"""Evaluation of an exported model: each token once, as training counts it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from marin_assets.errors import InputError
from marin_assets.gpt2 import text_evaluation
from marin_assets.gpt2.config import Gpt2Size, TrainingConfig
from marin_assets.gpt2.exported_model import ExportedModel
from marin_assets.gpt2.hf_export import to_hf
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.text_evaluation import evaluate_text_file, evaluate_token_cache
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import (
    END_OF_TEXT,
    END_OF_TEXT_ID,
    VOCABULARY_SIZE,
    TokensInMemory,
    byte_tokenizer,
    corpus,
    words,
)
from marin_assets_tests.gpt2.test_corpus import token_cache

POSITIONS = 16


@pytest.fixture
def exported(tmp_path: Path) -> ExportedModel:
    model = Gpt2(Gpt2Size(layers=2, heads=2, hidden_size=16), vocabulary_size=VOCABULARY_SIZE, positions=POSITIONS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    (tmp_path / "model").mkdir()
    tokenizer = byte_tokenizer(tmp_path / "model/made.json")
    to_hf(model, tmp_path / "model/hf", tokenizer=tokenizer, end_of_text=END_OF_TEXT, end_of_text_id=END_OF_TEXT_ID)
    return ExportedModel.open(tmp_path / "model")


@torch.no_grad()
def reference_losses(model: Gpt2, ids: list[int]) -> list[float]:
    """One token at a time: the context is what stands before it in its window and in its document."""
    losses = []
    for place in range(1, len(ids)):
        if ids[place - 1] == END_OF_TEXT_ID:
            continue
        context: list[int] = []
        for earlier in range((place - 1) // POSITIONS * POSITIONS, place):
            context = [] if ids[earlier] == END_OF_TEXT_ID else [*context, ids[earlier]]
        logits = model.logits(model(torch.tensor([context]))[0, -1])
        losses.append(float(functional.cross_entropy(logits, torch.tensor(ids[place]))))
    return losses


@pytest.mark.parametrize("length", [1, 2, POSITIONS - 1, POSITIONS, POSITIONS + 1, 5 * POSITIONS + 3])
def test_every_token_of_a_text_counts_once(exported: ExportedModel, tmp_path: Path, length: int) -> None:
    text = words(40)[:length]
    (tmp_path / "text.txt").write_text(text)
    found = evaluate_text_file(exported, tmp_path / "text.txt")
    losses = reference_losses(exported.model, [*exported.encoder.tokenizer.encode(text).ids, END_OF_TEXT_ID])
    assert found.tokens == len(losses) == length
    assert found.loss == pytest.approx(np.mean(losses), abs=1e-5)
    assert found.perplexity == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    assert found.bits_per_byte == pytest.approx(found.loss / math.log(2) * (length + 1) / length)


def test_documents_of_a_token_cache_are_told_apart(exported: ExportedModel, tmp_path: Path) -> None:
    ids = [token for size in (5, 40, 1, 17) for token in [*range(size), END_OF_TEXT_ID]]
    split = TokensInMemory(np.array(ids, dtype=np.int32))
    token_cache(tmp_path / "cache", {"validation": split})
    found = evaluate_token_cache(exported, tmp_path / "cache", "validation")
    losses = reference_losses(exported.model, ids)
    assert found.tokens == len(losses)
    assert found.loss == pytest.approx(np.mean(losses), abs=1e-5)
    assert found.bits_per_byte is None


def test_the_loss_on_the_validation_cache_is_that_of_the_run(tmp_path: Path) -> None:
    made = corpus(tmp_path / "corpus", validation=[words(200, 9)])
    assert isinstance(made.validation, TokensInMemory)
    whole_windows = (len(made.validation.ids) - 1) // 64 * 64 + 1
    token_cache(tmp_path / "cache", {"validation": TokensInMemory(made.validation.ids[:whole_windows])})
    stats = train_on(made, TrainingConfig(), Machine("cpu", 1), writer(tmp_path / "out"))
    found = evaluate_token_cache(ExportedModel.open(tmp_path / "out"), tmp_path / "cache", "validation")
    assert found.loss == pytest.approx(stats.validation_loss, abs=1e-5)


@given(st.lists(st.integers(0, 7)), st.integers(1, 5))
@settings(deadline=None)
def test_windows_of_a_stream_share_one_token(sizes: list[int], size: int) -> None:
    stream = np.arange(sum(sizes), dtype=np.int32)
    chunks = np.split(stream, np.cumsum(sizes)[:-1]) if sizes else []
    windows = list(text_evaluation._overlapping(chunks, size))
    assert [token for window in windows for token in window[1:]] == list(range(1, len(stream)))
    assert all(window[0] + 1 == window[1] for window in windows)
    assert all(len(window) == size + 1 for window in windows[:-1])


def test_what_is_no_text_is_refused(exported: ExportedModel, tmp_path: Path) -> None:
    (tmp_path / "latin1.txt").write_bytes("grün".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin1\.txt: not UTF-8 text: .* at byte 2; convert the file"):
        evaluate_text_file(exported, tmp_path / "latin1.txt")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(InputError, match=r"empty\.txt: has no text"):
        evaluate_text_file(exported, tmp_path / "empty.txt")


def test_a_cache_of_another_tokenizer_is_refused(exported: ExportedModel, tmp_path: Path) -> None:
    token_cache(tmp_path / "cache", {"validation": TokensInMemory(np.arange(9, dtype=np.int32))})
    with (tmp_path / "cache/tokenizer.json").open("a") as stream:
        stream.write("\n")
    with pytest.raises(InputError, match="were made with another tokenizer than the model's"):
        evaluate_token_cache(exported, tmp_path / "cache", "validation")


def test_a_cache_without_tokens_is_refused(exported: ExportedModel, tmp_path: Path) -> None:
    token_cache(tmp_path / "cache", {"validation": TokensInMemory(np.array([3], dtype=np.int32))})
    with pytest.raises(InputError, match="has 1 tokens, too few to evaluate on"):
        evaluate_token_cache(exported, tmp_path / "cache", "validation")


def test_a_model_without_its_tokenizer_is_refused(exported: ExportedModel) -> None:
    exported.tokenizer_path.unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json; save the model's tokenizer there"):
        ExportedModel.open(exported.tokenizer_path.parent)
