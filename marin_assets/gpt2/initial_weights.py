"""Where the first weights come from, if not from a seed: a directory, and the digest of what it holds.

Belongs here: what `init_from` may name, without torch, since each run of the pipeline asks for the digest before it
trains. Does not: making a model of it (`initial_model`).
"""

from dataclasses import dataclass
from pathlib import Path

import xxhash

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import InputError


@dataclass(frozen=True)
class InitialWeights:
    """A checkpoint of ours, or a GPT-2 in Hugging Face's form."""

    directory: Path
    is_checkpoint: bool
    digest: str
    """Of the files that decide the weights."""


def initial_weights(directory: Path) -> InitialWeights:
    """Look at a directory.

    Raises:
        InputError: it holds neither.
    """
    is_checkpoint = (directory / "state.json").is_file()
    description = "state.json" if is_checkpoint else "config.json"
    files = sorted({directory / description, *directory.glob("model*.safetensors*")})
    if not files[0].is_file() or len(files) < 2:
        raise InputError(
            f"init_from: {directory} is neither a checkpoint (state.json, model.safetensors) nor a Hugging Face GPT-2 "
            "(config.json, model.safetensors); give the directory that holds these files"
        )
    listing = "".join(f"{path.name}={file_digest(path)};" for path in files)
    return InitialWeights(directory, is_checkpoint, xxhash.xxh3_128_hexdigest(listing.encode()))


def digests(init_from: str) -> dict[str, str]:
    """What the setting adds to the inputs of a recipe: the digest of the directory that it names, if it names one."""
    return {"init_from": initial_weights(Path(init_from)).digest} if init_from else {}
