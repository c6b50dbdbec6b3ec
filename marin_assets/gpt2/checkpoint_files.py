"""A checkpoint's directory on disk: written whole or not at all, and damage told by name.

Belongs here: files, digests, renames. Does not: which checkpoints there are, or what they mean to a run.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue
from safetensors.torch import save_file
from torch import Tensor

from marin_assets.artifacts.durability import sync
from marin_assets.artifacts.file_digest import file_digest

COMPLETE = "complete.json"
PARTIAL = ".partial"


def write_directory(destination: Path, tensors: Mapping[str, dict[str, Tensor]], state: dict[str, JsonValue]) -> None:
    """Write `NAME.safetensors` for each name and `state.json`, list them in `complete.json`, rename all into place.

    What was at the destination is replaced.
    """
    partial = destination.with_name(destination.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, parts in tensors.items():
        save_file({part: tensor.contiguous() for part, tensor in parts.items()}, partial / f"{name}.safetensors")
    _write_json(partial / "state.json", state)
    _write_json(partial / COMPLETE, {"files": _listing(partial)})
    for path in [*partial.iterdir(), partial]:
        sync(path)
    if destination.exists():
        shutil.rmtree(destination)
    partial.rename(destination)
    sync(destination.parent)


def damage(directory: Path) -> str | None:
    """What is wrong with a checkpoint's files, if anything."""
    try:
        listing = json.loads((directory / COMPLETE).read_text())["files"]
    except FileNotFoundError:
        return f"it has no {COMPLETE}"
    except (ValueError, KeyError) as error:
        return f"{COMPLETE} cannot be read ({error})"
    for name, (size, digest) in listing.items():
        file = directory / name
        if not file.exists():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes instead of {size}"
        if file_digest(file) != digest:
            return f"{name} was altered"
    return None


def _listing(directory: Path) -> dict[str, JsonValue]:
    """Size and digest of each file."""
    return {path.name: [path.stat().st_size, file_digest(path)] for path in sorted(directory.iterdir())}


def _write_json(path: Path, value: dict[str, JsonValue]) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
