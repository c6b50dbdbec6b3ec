"""The network: its first weights, and what a token can see."""

import math

import numpy as np
import torch

from marin_assets.gpt2.batches import Samples
from marin_assets.gpt2.config import SIZES, Gpt2Size, Precision
from marin_assets.gpt2.forward import batch_loss_sum
from marin_assets.gpt2.model import Gpt2

SMALL = Gpt2Size(layers=2, heads=2, hidden_size=16)


def test_gpt2_has_as_many_parameters_as_published() -> None:
    model = Gpt2(SIZES["gpt2"], vocabulary_size=50_257, positions=1024)
    assert model.parameter_count == SIZES["gpt2"].parameter_count(50_257, 1024) == 124_439_808


def test_first_weights_are_drawn_as_gpt2s() -> None:
    model = Gpt2(Gpt2Size(layers=4, heads=4, hidden_size=128), vocabulary_size=500, positions=64)
    deviations = {
        name: float(parameter.detach().std()) for name, parameter in model.named_parameters() if parameter.dim() == 2
    }
    for name, deviation in deviations.items():
        expected = 0.02 / math.sqrt(8) if name.endswith("output.weight") else 0.02
        assert abs(deviation / expected - 1) < 0.05, name
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name


def test_first_weights_are_decided_by_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = Gpt2(SMALL, vocabulary_size=20, positions=8, seed=5)
    torch.manual_seed(2)
    same, other = (Gpt2(SMALL, vocabulary_size=20, positions=8, seed=seed) for seed in (5, 6))
    assert torch.equal(first.token_embedding.weight, same.token_embedding.weight)
    assert not torch.equal(first.token_embedding.weight, other.token_embedding.weight)


def test_no_token_sees_what_follows() -> None:
    model = Gpt2(SMALL, vocabulary_size=20, positions=8).eval()
    ids = torch.arange(8)[None]
    changed = ids.clone()
    changed[0, 5] = 19
    before, after = model(ids), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:])


@torch.no_grad()
def test_packed_documents_have_the_loss_of_each_document_alone() -> None:
    end = 19
    generator = np.random.default_rng(0)
    documents = [[*generator.integers(0, 18, length).tolist(), end] for length in (3, 1, 7, 5, 2)]
    stream = np.array([token for document in documents for token in document] + [0], dtype=np.uint16)
    model = Gpt2(SMALL, vocabulary_size=20, positions=len(stream)).eval()

    packed = Samples(stream, len(stream) - 1, end, "train").batch(np.array([0]))
    alone = [Samples(np.array(d, dtype=np.uint16), len(d) - 1, None, "train").batch(np.array([0])) for d in documents]

    total = sum(float(batch_loss_sum(model, batch, Precision.float32)) for batch in alone)
    assert packed.target_count() == sum(batch.target_count() for batch in alone)
    assert abs(float(batch_loss_sum(model, packed, Precision.float32)) - total) < 1e-3


@torch.no_grad()
def test_bfloat16_is_near_float32() -> None:
    model = Gpt2(SMALL, vocabulary_size=20, positions=8)
    batch = Samples(np.arange(17, dtype=np.uint16), 8, None, "train").batch(np.array([0, 1]))
    exact = float(batch_loss_sum(model, batch, Precision.float32))
    rounded = float(batch_loss_sum(model, batch, Precision.bfloat16))
    assert exact != rounded
    assert abs(exact - rounded) / exact < 1e-2
