"""The model that training starts with: drawn from a seed, or read from `init_from`.

Belongs here: making it on the CPU, and refusing weights that do not fit the settings or the tokens.
"""

from pathlib import Path

from safetensors.torch import load_file

from marin_assets.errors import SettingsError
from marin_assets.gpt2.checkpoints import saved_size
from marin_assets.gpt2.config import SIZES, Gpt2Size, TrainingConfig
from marin_assets.gpt2.hf_export import from_hf
from marin_assets.gpt2.initial_weights import InitialWeights, initial_weights
from marin_assets.gpt2.model import Gpt2


def initial_model(config: TrainingConfig, vocabulary_size: int) -> Gpt2:
    """A model of the config's size that reads `vocabulary_size` tokens.

    Raises:
        InputError: `init_from` holds no whole GPT-2.
        SettingsError: its model is of another size, vocabulary or length.
    """
    if config.init_from:
        return _read(initial_weights(Path(config.init_from)), config, vocabulary_size)
    return Gpt2(
        config.size,
        vocabulary_size=vocabulary_size,
        positions=config.sequence_length,
        dropout=config.dropout,
        seed=config.seed,
    )


def _read(source: InitialWeights, config: TrainingConfig, vocabulary_size: int) -> Gpt2:
    if source.is_checkpoint:
        size = saved_size(source.directory)
        weights = load_file(source.directory / "model.safetensors")
    else:
        theirs = from_hf(source.directory)
        size, weights = theirs.size, theirs.state_dict()
    tokens, positions = (len(weights[f"{name}_embedding.weight"]) for name in ("token", "position"))
    where = f"init_from: the model in {source.directory}"
    if size != config.size:
        raise SettingsError(f"{where} has {_words(size)}, and the settings ask for {_words(config.size)}; {_set(size)}")
    if tokens < vocabulary_size:
        raise SettingsError(
            f"{where} knows {tokens} tokens and the token cache has {vocabulary_size}; materialize token_cache with "
            "the tokenizer of that model (MARIN_TOKENIZER)"
        )
    if positions < config.sequence_length:
        raise SettingsError(
            f"{where} reads {positions} tokens at most; set sequence_length, now {config.sequence_length}, to "
            f"{positions} or less"
        )
    model = Gpt2(size, vocabulary_size=tokens, positions=positions, dropout=config.dropout)
    model.load_state_dict(weights)
    return model


def _words(size: Gpt2Size) -> str:
    return f"{size.layers} layers, {size.heads} heads and hidden_size {size.hidden_size}"


def _set(size: Gpt2Size) -> str:
    """How to ask for this size."""
    for name, named in SIZES.items():
        if named == size:
            return f"set model to {name} and leave layers, heads and hidden_size at 0"
    return f"set layers to {size.layers}, heads to {size.heads} and hidden_size to {size.hidden_size}"
