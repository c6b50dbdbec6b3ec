"""To and from Hugging Face's GPT-2: the same weights under other names, the same logits.

Belongs here: names, layouts and the files that `transformers` reads. Theirs keeps the weights of linear layers as
(in, out), ours as (out, in). The head is the token embedding in both and is stored once.
"""

import json
import shutil
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor

from marin_assets.errors import InputError
from marin_assets.gpt2.config import Gpt2Size
from marin_assets.gpt2.model import INITIAL_DEVIATION, NORM_EPSILON, Gpt2

_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_OUTSIDE_BLOCKS = {
    "token_embedding": "wte",
    "position_embedding": "wpe",
    "final_norm": "ln_f",
}
_IN_A_BLOCK = {
    "attention_norm": "ln_1",
    "attention.query_key_value": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.output": "mlp.c_proj",
}


class _TheirConfig(BaseModel):
    """The keys of `config.json` that decide the logits, and what `transformers` takes for one that is missing."""

    model_config = ConfigDict(extra="ignore")

    model_type: Literal["gpt2"]
    vocab_size: int
    n_positions: int = 1024
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    n_inner: int | None = None
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = Field(default=NORM_EPSILON, ge=NORM_EPSILON, le=NORM_EPSILON)
    activation_function: Literal["gelu_new"] = "gelu_new"
    tie_word_embeddings: Literal[True] = True
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    add_cross_attention: Literal[False] = False


def to_hf(model: Gpt2, directory: Path, *, tokenizer: Path, end_of_text: str, end_of_text_id: int) -> list[str]:
    """Write a directory that `GPT2LMHeadModel` and `AutoTokenizer` open with `from_pretrained`.

    Args:
        tokenizer: `tokenizer.json`.

    Returns:
        The names of the files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    weights = {f"transformer.{theirs}": tensor for theirs, tensor in _to_their_layout(model).items()}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(tokenizer, directory / "tokenizer.json")
    _write_json(directory / "config.json", _their_config(model, end_of_text_id))
    _write_json(directory / "generation_config.json", {"bos_token_id": end_of_text_id, "eos_token_id": end_of_text_id})
    _write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": model.positions,
            "bos_token": end_of_text,
            "eos_token": end_of_text,
            "unk_token": end_of_text,
            "clean_up_tokenization_spaces": False,
        },
    )
    return list(_FILES)


def from_hf(directory: Path) -> Gpt2:
    """The model of a Hugging Face GPT-2 directory, with the same logits. Dropout is that of its config.

    Raises:
        InputError: a file is missing, or the model is not a GPT-2 as published.
    """
    config = _read_their_config(directory)
    model = Gpt2(
        Gpt2Size(layers=config.n_layer, heads=config.n_head, hidden_size=config.n_embd),
        vocabulary_size=config.vocab_size,
        positions=config.n_positions,
        dropout=config.resid_pdrop,
    )
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in _read_weights(directory).items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            their_name = _their_name(name)
            if their_name not in theirs:
                raise InputError(f"{directory} has no weight {their_name!r}; is it a whole GPT-2?")
            weight = _transposed_if_linear(name, theirs[their_name])
            if weight.shape != parameter.shape:
                raise InputError(
                    f"weight {their_name!r} of {directory} is {tuple(weight.shape)} where its config.json asks for "
                    f"{tuple(parameter.shape)}; take both files from one model"
                )
            parameter.copy_(weight)
    return model


def _to_their_layout(model: Gpt2) -> dict[str, Tensor]:
    return {
        _their_name(name): _transposed_if_linear(name, parameter.detach().cpu()).contiguous()
        for name, parameter in model.named_parameters()
    }


def _their_name(name: str) -> str:
    """`blocks.3.attention.output.weight` → `h.3.attn.c_proj.weight`."""
    module, _, kind = name.rpartition(".")
    if not module.startswith("blocks."):
        return f"{_OUTSIDE_BLOCKS[module]}.{kind}"
    _, number, within = module.split(".", 2)
    return f"h.{number}.{_IN_A_BLOCK[within]}.{kind}"


def _transposed_if_linear(name: str, weight: Tensor) -> Tensor:
    is_linear = name.startswith("blocks.") and weight.dim() == 2
    return weight.T if is_linear else weight


def _their_config(model: Gpt2, end_of_text_id: int) -> dict[str, JsonValue]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": model.vocabulary_size,
        "n_positions": model.positions,
        "n_layer": model.size.layers,
        "n_head": model.size.heads,
        "n_embd": model.size.hidden_size,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": NORM_EPSILON,
        "initializer_range": INITIAL_DEVIATION,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.dropout,
        "resid_pdrop": model.dropout,
        "bos_token_id": end_of_text_id,
        "eos_token_id": end_of_text_id,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _read_their_config(directory: Path) -> _TheirConfig:
    path = directory / "config.json"
    if not path.exists():
        raise InputError(f"{directory} has no config.json; give the directory of a Hugging Face GPT-2")
    try:
        config = _TheirConfig.model_validate_json(path.read_bytes())
    except ValidationError as error:
        wrong = "; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors() if problem["loc"])
        raise InputError(f"{path} is not of a GPT-2 as published, the only one that is read: {wrong}") from error
    if config.n_inner not in (None, 4 * config.n_embd):
        raise InputError(f"{path} has n_inner {config.n_inner}; only four times n_embd, {4 * config.n_embd}, is read")
    return config


def _read_weights(directory: Path) -> dict[str, Tensor]:
    """All tensors, from one file or from several with an index."""
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.exists():
        return load_file(single)
    if not index.exists():
        raise InputError(f"{directory} has no model.safetensors; save the model with safe_serialization")
    names = set(json.loads(index.read_text())["weight_map"].values())
    return {name: tensor for file in sorted(names) for name, tensor in load_file(directory / file).items()}


def _write_json(path: Path, value: dict[str, JsonValue]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
