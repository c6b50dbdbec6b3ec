"""Operations and memory: the counts that others publish, and what a run reports."""

import json
from pathlib import Path

import pytest
import torch

from marin_assets.gpt2.config import SIZES, Precision, TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.model import Gpt2
from marin_assets.gpt2.throughput import Throughput, flops_per_token, peak_flops
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import corpus


def test_a_token_costs_what_the_matrices_and_attention_cost() -> None:
    size, vocabulary, length = SIZES["quickstart"], 100, 64
    model = Gpt2(size, vocabulary_size=vocabulary, positions=length)
    multiplied = sum(p.numel() for name, p in model.named_parameters() if name != "position_embedding.weight")
    attention = 2 * 2 * size.hidden_size * length * size.layers  # scores and values, two operations each
    assert flops_per_token(size, vocabulary, length) == 6 * multiplied + 3 * attention


def test_gpt2_of_124_million_costs_what_is_published() -> None:
    assert flops_per_token(SIZES["gpt2"], 50257, 1024) == pytest.approx(8.55e8, rel=0.01)


def test_the_peak_of_this_processor_is_that_of_its_matrix_products() -> None:
    peak = peak_flops(torch.device("cpu"), Precision.float32)
    assert peak is not None
    assert 1e9 < peak < 1e14


def test_the_share_is_unknown_where_the_peak_is() -> None:
    assert Throughput(flops_per_token=2e6, peak_flops=1e9).peak_share(100.0) == 0.2
    assert Throughput(flops_per_token=2e6, peak_flops=None).peak_share(100.0) is None
    assert peak_flops(torch.device("meta"), Precision.float32) is None


def test_every_step_reports_its_share_of_the_peak_and_its_memory(tmp_path: Path) -> None:
    train_on(corpus(tmp_path / "corpus"), TrainingConfig(), Machine("cpu", 1), writer(tmp_path / "out"))
    lines = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(0 < line["peak_flops_share"] < 1 for line in lines)
    assert all(50e6 < line["peak_memory_bytes"] < 50e9 for line in lines)
