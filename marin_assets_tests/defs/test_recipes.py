"""What decides a model's fingerprint."""

from pathlib import Path

from safetensors.torch import save_file
from torch import ones, zeros

from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.defs.recipes import GPT2_MODEL
from marin_assets.defs.settings import Gpt2ModelSettings


def fingerprint(init_from: str) -> str:
    settings = Gpt2ModelSettings.model_validate({"init_from": init_from})
    store = ArtifactStore(open_storage("store"))
    return GPT2_MODEL.recipe("gpt2_model", settings, {"token_cache": "digest"}, store).fingerprint


def model(directory: Path, value: float) -> str:
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    save_file({"weight": ones(3) * value}, directory / "model.safetensors")
    return str(directory)


def test_first_weights_count_by_what_they_hold_and_not_by_where_they_are(tmp_path: Path) -> None:
    one, same, other = (model(tmp_path / name, value) for name, value in (("a", 1), ("b", 1), ("c", 2)))
    assert fingerprint(one) == fingerprint(same)
    assert len({fingerprint(one), fingerprint(other), fingerprint("")}) == 3


def test_weights_that_are_replaced_in_place_are_another_input(tmp_path: Path) -> None:
    directory = model(tmp_path / "a", 1)
    before = fingerprint(directory)
    save_file({"weight": zeros(3)}, tmp_path / "a/model.safetensors")
    assert fingerprint(directory) != before
