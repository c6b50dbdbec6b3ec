"""Our GPT-2 and that of `transformers` are one model: the same logits, in both directions."""

import json
from pathlib import Path
from typing import cast

import pytest
import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from marin_assets.errors import InputError
from marin_assets.gpt2.config import Gpt2Size
from marin_assets.gpt2.hf_export import from_hf, to_hf
from marin_assets.gpt2.model import Gpt2
from marin_assets_tests.gpt2.corpora import END_OF_TEXT, END_OF_TEXT_ID, VOCABULARY_SIZE, byte_tokenizer

TOKEN_IDS = torch.arange(60).reshape(3, 20) * 4


def lively(model: torch.nn.Module) -> None:
    """Weights larger than first ones, so that no difference hides in values near zero."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))


def our_model() -> Gpt2:
    model = Gpt2(Gpt2Size(layers=3, heads=4, hidden_size=32), vocabulary_size=VOCABULARY_SIZE, positions=24)
    lively(model)
    return model.eval()


@torch.no_grad()
def our_logits(model: Gpt2) -> torch.Tensor:
    return model.logits(model(TOKEN_IDS))


@torch.no_grad()
def their_logits(model: GPT2LMHeadModel) -> torch.Tensor:
    model.eval()  # type: ignore[no-untyped-call]
    logits: torch.Tensor = model(TOKEN_IDS).logits
    return logits


def export(model: Gpt2, directory: Path) -> Path:
    tokenizer = byte_tokenizer(directory / "made.json")
    to_hf(model, directory / "hf", tokenizer=tokenizer, end_of_text=END_OF_TEXT, end_of_text_id=END_OF_TEXT_ID)
    return directory / "hf"


def test_transformers_opens_the_export_with_the_same_logits(tmp_path: Path) -> None:
    ours = our_model()
    directory = export(ours, tmp_path)
    theirs, loading = cast(
        "tuple[GPT2LMHeadModel, dict[str, set[str]]]",
        GPT2LMHeadModel.from_pretrained(directory, output_loading_info=True),
    )
    assert not any(loading.values()), loading
    torch.testing.assert_close(their_logits(theirs), our_logits(ours), rtol=0, atol=1e-5)
    assert theirs.generation_config is not None
    assert theirs.generation_config.eos_token_id == END_OF_TEXT_ID


def test_transformers_opens_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(export(our_model(), tmp_path))
    ids = tokenizer("grün <b> 河")["input_ids"]
    assert len(ids) == len("grün <b> 河".encode())
    assert tokenizer.decode(ids) == "grün <b> 河"
    assert tokenizer.eos_token_id == END_OF_TEXT_ID
    assert len(tokenizer) == VOCABULARY_SIZE


def test_the_export_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = export(our_model(), tmp_path / "one"), export(our_model(), tmp_path / "two")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


@pytest.mark.parametrize("shard_size", ["1GB", "20KB"])
def test_a_model_of_transformers_is_read_with_the_same_logits(tmp_path: Path, shard_size: str) -> None:
    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=300, n_positions=24, n_embd=32, n_layer=3, n_head=4))
    lively(theirs)
    theirs.save_pretrained(tmp_path, max_shard_size=shard_size)
    torch.testing.assert_close(our_logits(from_hf(tmp_path).eval()), their_logits(theirs), rtol=0, atol=1e-5)


def test_our_own_export_comes_back_bit_for_bit(tmp_path: Path) -> None:
    ours = our_model()
    back = from_hf(export(ours, tmp_path))
    for mine, other in zip(ours.parameters(), back.parameters(), strict=True):
        assert torch.equal(mine, other)


def change(directory: Path, **values: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "llama"}, "model_type: Input should be 'gpt2'"),
        ({"activation_function": "relu"}, "activation_function: Input should be 'gelu_new'"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: Input should be True"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon: Input should be greater"),
        ({"n_inner": 7}, "n_inner 7; only four times n_embd, 128, is read"),
        ({"n_layer": 9}, "has no weight 'h.3.ln_1.weight'; is it a whole GPT-2?"),
        ({"n_positions": 9}, r"weight 'wpe.weight' .* is \(24, 32\) where its config.json asks for \(9, 32\)"),
    ],
)
def test_what_is_no_gpt2_is_refused(tmp_path: Path, values: dict[str, object], message: str) -> None:
    directory = export(our_model(), tmp_path)
    change(directory, **values)
    with pytest.raises(InputError, match=message):
        from_hf(directory)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no config\.json; give the directory of a Hugging Face GPT-2"):
        from_hf(tmp_path)
    directory = export(our_model(), tmp_path)
    (directory / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no model\.safetensors"):
        from_hf(directory)
