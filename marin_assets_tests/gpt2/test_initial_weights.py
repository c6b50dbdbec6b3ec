"""Training that starts from given weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import GPT2Config, GPT2LMHeadModel

from marin_assets.errors import InputError, MarinAssetsError, SettingsError, TrainingError
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.initial_model import initial_model
from marin_assets.gpt2.initial_weights import digests, initial_weights
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import VOCABULARY_SIZE, corpus
from marin_assets_tests.gpt2.interrupted_run import MACHINE


def theirs(directory: Path, **sizes: int) -> Path:
    """A small GPT-2 as `transformers` saves it, whose biases are not zero."""
    torch.manual_seed(0)
    defaults = {"vocab_size": VOCABULARY_SIZE, "n_positions": 80, "n_layer": 2, "n_head": 2, "n_embd": 32}
    config = GPT2Config.from_dict(defaults | sizes)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    directory = tmp_path_factory.mktemp("trained")
    train_on(corpus(directory / "corpus"), TrainingConfig(), MACHINE, writer(directory / "out"))
    return directory / "out"


def test_a_hugging_face_model_gives_its_logits_and_keeps_its_positions(tmp_path: Path) -> None:
    directory = theirs(tmp_path)
    model = initial_model(TrainingConfig(init_from=str(directory)), VOCABULARY_SIZE)
    token_ids = torch.randint(0, VOCABULARY_SIZE, (3, 70), generator=torch.Generator().manual_seed(1))

    expected = GPT2LMHeadModel.from_pretrained(directory)(token_ids).logits
    assert_close(model.logits(model(token_ids)), expected, rtol=0, atol=1e-5)
    assert model.positions == 80


def test_our_checkpoint_and_the_export_of_it_are_the_same_start(trained: Path) -> None:
    paths = (trained / "checkpoints/step-000002", trained / "hf")
    ours, exported = (initial_model(TrainingConfig(init_from=str(path)), VOCABULARY_SIZE) for path in paths)
    for one, other in zip(ours.parameters(), exported.parameters(), strict=True):
        assert torch.equal(one, other)


def test_training_goes_on_from_the_loss_of_the_given_model(tmp_path: Path, trained: Path) -> None:
    config = TrainingConfig(init_from=str(trained / "hf"), steps=1)
    out = writer(tmp_path / "out")
    stats = train_on(corpus(tmp_path / "corpus"), config, MACHINE, out)
    first, last = ((place / "evaluations.jsonl").read_text().splitlines() for place in (out.directory, trained))
    assert first[0].split("loss")[1] == last[-1].split("loss")[1]
    assert stats.resumed_at_step == 0


def test_dropout_is_that_of_the_settings(trained: Path) -> None:
    config = TrainingConfig(init_from=str(trained / "hf"), dropout=0.3)
    assert initial_model(config, VOCABULARY_SIZE).dropout == 0.3


def test_a_larger_vocabulary_than_the_tokens_need_is_kept(tmp_path: Path) -> None:
    config = TrainingConfig(init_from=str(theirs(tmp_path, vocab_size=300)))
    assert initial_model(config, VOCABULARY_SIZE).vocabulary_size == 300


@pytest.mark.parametrize(
    ("sizes", "settings", "error", "said"),
    [
        ({"n_layer": 1}, {}, SettingsError, "set layers to 1, heads to 2 and hidden_size to 32"),
        ({}, {"model": "gpt2"}, SettingsError, "set model to quickstart and leave layers, heads and hidden_size at 0"),
        (
            {"vocab_size": 100},
            {},
            SettingsError,
            "knows 100 tokens and the token cache has 257; materialize token_cache with the tokenizer of that model",
        ),
        ({"n_positions": 16}, {}, SettingsError, "reads 16 tokens at most; set sequence_length, now 64, to 16 or less"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_the_remedy(
    tmp_path: Path, sizes: dict[str, int], settings: dict[str, str], error: type[MarinAssetsError], said: str
) -> None:
    config = TrainingConfig.model_validate({"init_from": str(theirs(tmp_path, **sizes)), **settings})
    with pytest.raises(error) as caught:
        initial_model(config, VOCABULARY_SIZE)
    assert said in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_directory_without_a_model_is_refused(tmp_path: Path, missing: str) -> None:
    (theirs(tmp_path) / missing).unlink()
    with pytest.raises(InputError, match=r"init_from: .* is neither a checkpoint .* nor a Hugging Face GPT-2"):
        digests(str(tmp_path))


def test_the_digest_is_of_the_weights_and_not_of_the_place(tmp_path: Path) -> None:
    one, other = theirs(tmp_path / "one"), theirs(tmp_path / "other")
    assert initial_weights(one).digest == initial_weights(other).digest
    weights = load_file(other / "model.safetensors")
    weights["transformer.wte.weight"][0, 0] += 1
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    assert initial_weights(one).digest != initial_weights(other).digest
    assert digests("") == {}


def test_a_checkpoint_that_started_elsewhere_is_not_continued(tmp_path: Path, trained: Path) -> None:
    tokens = corpus(tmp_path / "corpus")
    train_on(tokens, TrainingConfig(), MACHINE, writer(tmp_path / "out"))
    with pytest.raises(TrainingError, match=r"belongs to another run .init_from was None and is now"):
        train_on(tokens, TrainingConfig(init_from=str(trained / "hf")), MACHINE, writer(tmp_path / "out"))
