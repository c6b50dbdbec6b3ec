"""A whole run: what comes out, what it learns, and what stops it."""

import dataclasses
import json
import logging
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, GPT2LMHeadModel

from marin_assets.cores import available_cores
from marin_assets.errors import SettingsError, TrainingError
from marin_assets.gpt2.config import Precision, TrainingConfig
from marin_assets.gpt2.hf_export import from_hf
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import published, writer
from marin_assets_tests.gpt2.corpora import VOCABULARY_SIZE, corpus, words

MACHINE = Machine(device="cpu", threads=1)


def test_the_quick_start_run_leaves_a_whole_artifact(tmp_path: Path) -> None:
    out = writer(tmp_path / "out")
    seen: list[StepMetrics] = []
    stats = train_on(corpus(tmp_path / "corpus"), TrainingConfig(), MACHINE, out, seen.append)
    names = {entry.name for entry in published(out).files()}

    assert names == {
        *(f"checkpoints/step-000002/{file}" for file in ("complete.json", "state.json")),
        *(f"checkpoints/step-000002/{part}.safetensors" for part in ("model", "optimizer")),
        *(f"hf/{file}" for file in ("config.json", "generation_config.json", "model.safetensors")),
        *(f"hf/{file}" for file in ("tokenizer.json", "tokenizer_config.json")),
        *(
            "evaluations.jsonl",
            "loss.png",
            "metrics.jsonl",
            "model_card.md",
            "samples.jsonl",
            "samples.md",
            "summary.json",
        ),
    }
    assert {entry.name for entry in out.entries if not entry.content} == {"loss.png", "metrics.jsonl", "model_card.md"}
    assert [metrics.step for metrics in seen] == [1, 2]
    assert (stats.steps, stats.trained_tokens, stats.resumed_at_step) == (2, 1024, 0)
    assert stats.samples * 64 + 1 + stats.dropped_tokens == stats.train_tokens
    assert stats.validation_loss is not None
    assert stats.validation_bits_per_byte == pytest.approx(stats.validation_loss / math.log(2))
    assert abs(seen[0].loss - math.log(VOCABULARY_SIZE)) < 0.1
    assert json.loads((tmp_path / "out/summary.json").read_text())["stats"]["train_loss"] == stats.train_loss
    assert "\nIn the beginning" in (tmp_path / "out/samples.md").read_text()
    assert (tmp_path / "out/loss.png").read_bytes().startswith(b"\x89PNG")


def test_a_tiny_text_is_learned_by_heart_and_transformers_says_it(tmp_path: Path) -> None:
    sentence = "The river sees the old mountain. "
    learned = corpus(tmp_path / "corpus", documents=[sentence * 40], validation=[sentence * 6])
    config = TrainingConfig(
        steps=150, learning_rate=1e-2, batch_size=4, eval_every=0, sample_prompts=["The river"], sample_temperature=0
    )
    stats = train_on(learned, config, MACHINE, writer(tmp_path / "out"))
    assert stats.train_loss is not None
    assert stats.train_loss < 0.1 < math.log(VOCABULARY_SIZE)
    assert stats.validation_loss is not None
    assert stats.validation_loss < 0.2
    assert "\nThe river sees the old mountain. The river" in (tmp_path / "out/samples.md").read_text()

    theirs = GPT2LMHeadModel.from_pretrained(tmp_path / "out/hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out/hf")
    said = theirs.generate(
        **tokenizer("The river", return_tensors="pt"), max_new_tokens=20, do_sample=False, pad_token_id=0
    )
    assert str(tokenizer.decode(said[0])).startswith("The river sees the old mounta")


def test_micro_batches_make_the_step_of_the_whole_batch(tmp_path: Path) -> None:
    small = corpus(tmp_path / "corpus", documents=[words(count, count) for count in range(3, 60)])
    for size in (0, 2):
        train_on(small, TrainingConfig(micro_batch_size=size), MACHINE, writer(tmp_path / str(size)))
    whole, pieces = (from_hf(tmp_path / str(size) / "hf") for size in (0, 2))
    for one, other in zip(whole.parameters(), pieces.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6)


def test_bfloat16_trains_near_float32(tmp_path: Path) -> None:
    small = corpus(tmp_path / "corpus")
    exact, rounded = (
        train_on(small, TrainingConfig(steps=20, precision=precision), MACHINE, writer(tmp_path / precision.value))
        for precision in (Precision.float32, Precision.bfloat16)
    )
    assert exact.train_loss != rounded.train_loss
    assert exact.train_loss == pytest.approx(rounded.train_loss, abs=0.05)


def test_a_loss_that_is_not_finite_stops_before_the_update(tmp_path: Path) -> None:
    config = TrainingConfig(steps=5, learning_rate=1e30, warmup_steps=0, checkpoint_every=1, eval_every=0)
    with pytest.raises(TrainingError) as caught:
        train_on(corpus(tmp_path / "corpus"), config, MACHINE, writer(tmp_path / "out"))
    kept = tmp_path / "out/checkpoints/step-000001"
    message = str(caught.value)
    assert "step 2 was not made: its loss is nan" in message
    assert "at learning rate " in message
    assert "on samples [" in message
    assert message.endswith(f"The newest checkpoint is {kept}")
    assert (kept / "complete.json").exists()
    assert len((tmp_path / "out/metrics.jsonl").read_text().splitlines()) == 1


def test_too_small_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the train split .* has 6 tokens.*set sequence_length to 5 or less"):
        train_on(corpus(tmp_path / "corpus", documents=["short"]), TrainingConfig(), MACHINE, writer(tmp_path / "out"))


def test_a_validation_split_that_is_too_short_is_named_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        stats = train_on(
            corpus(tmp_path / "corpus", validation=[]), TrainingConfig(), MACHINE, writer(tmp_path / "out")
        )
    assert "no validation loss: the validation split of the token cache has 0 tokens" in caplog.text
    assert stats.validation_loss is None
    assert stats.validation_bits_per_byte is None


def test_bits_per_byte_are_unknown_where_bytes_are(tmp_path: Path) -> None:
    unknown = dataclasses.replace(corpus(tmp_path / "corpus"), validation_bytes_per_token=None)
    stats = train_on(unknown, TrainingConfig(), MACHINE, writer(tmp_path / "out"))
    assert stats.validation_loss is not None
    assert stats.validation_bits_per_byte is None


def test_the_process_is_left_as_it_was_found(tmp_path: Path) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    train_on(corpus(tmp_path / "corpus"), TrainingConfig(), Machine("cpu", threads + 1), writer(tmp_path / "out"))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("device", "message"),
    [("tpu", "device 'tpu' is unknown; choose auto, cpu"), ("cuda:99", "choose auto or cpu, or install a CUDA build")],
)
def test_a_device_that_is_not_there_is_refused(device: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message), Machine(device).use(0):
        pass


@pytest.mark.parametrize(("operations", "threads"), [(1e9, 1), (1e12, available_cores())])
def test_small_steps_take_one_thread_and_large_ones_all_cores(operations: float, threads: int) -> None:
    with Machine("cpu").use(operations):
        assert torch.get_num_threads() == threads


def test_fewer_than_no_threads_are_refused() -> None:
    with pytest.raises(SettingsError, match="threads is -1"):
        Machine(threads=-1)
