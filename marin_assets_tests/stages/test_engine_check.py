import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marin_assets.artifacts.code_version import code_version
from marin_assets.errors import SettingsError
from marin_assets.stages import engine_check
from marin_assets.stages.engine_check import EngineSetting, choose_engine, find_difference
from marin_assets.stages.text_encoder import EngineName
from marin_assets.stages.tokenizer_file import TokenizerFile
from marin_assets_tests.stages import small_tokenizer

AUTO, HUGGINGFACE, GIGATOKEN = EngineSetting.auto, EngineSetting.huggingface, EngineSetting.gigatoken


@pytest.fixture
def tokenizer(tmp_path: Path) -> TokenizerFile:
    return small_tokenizer.save(tmp_path / "small.json")


@pytest.fixture
def other(tmp_path: Path) -> TokenizerFile:
    """A tokenizer that gigatoken 0.10 loads and encodes with otherwise than the reference does."""
    description = small_tokenizer.description()
    description["pre_tokenizer"]["use_regex"] = False
    return small_tokenizer.save(tmp_path / "no_regex.json", description)


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[TokenizerFile]:
    """The tokenizers that were compared."""
    compared: list[TokenizerFile] = []

    def find(tokenizer: TokenizerFile) -> str | None:
        compared.append(tokenizer)
        return find_difference(tokenizer)

    monkeypatch.setattr(engine_check, "find_difference", find)
    return compared


@pytest.mark.parametrize("setting", [AUTO, GIGATOKEN])
def test_gigatoken_is_taken_where_its_ids_are_the_same(
    tmp_path: Path, tokenizer: TokenizerFile, setting: EngineSetting
) -> None:
    assert choose_engine(tokenizer, setting, tmp_path / "memory") is EngineName.gigatoken


def test_that_they_are_is_remembered_for_this_tokenizer(
    tmp_path: Path, tokenizer: TokenizerFile, comparisons: list[TokenizerFile]
) -> None:
    for _ in range(3):
        choose_engine(tokenizer, AUTO, tmp_path / "memory")
    assert comparisons == [tokenizer]

    description = small_tokenizer.description()
    description["model"]["merges"].pop()
    changed = small_tokenizer.save(tmp_path / "changed.json", description)
    choose_engine(changed, AUTO, tmp_path / "memory")
    assert comparisons == [tokenizer, changed]


def test_it_is_remembered_for_these_versions(
    tmp_path: Path, tokenizer: TokenizerFile, comparisons: list[TokenizerFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_engine(tokenizer, AUTO, tmp_path / "memory")
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} of tomorrow")
    choose_engine(tokenizer, AUTO, tmp_path / "memory")
    assert len(comparisons) == 2


def test_a_memory_that_cannot_be_written_costs_time_only(
    tmp_path: Path, tokenizer: TokenizerFile, comparisons: list[TokenizerFile]
) -> None:
    (tmp_path / "file").write_text("")
    for _ in range(2):
        assert choose_engine(tokenizer, AUTO, tmp_path / "file" / "memory") is EngineName.gigatoken
    assert len(comparisons) == 2


def test_the_reference_is_taken_with_one_warning_where_ids_differ(
    tmp_path: Path, other: TokenizerFile, caplog: pytest.LogCaptureFixture
) -> None:
    assert choose_engine(other, AUTO, tmp_path / "memory") is EngineName.huggingface
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "gigatoken is not used for no_regex" in record.message
    assert "it makes [" in record.message


def test_gigatoken_is_refused_where_ids_differ(tmp_path: Path, other: TokenizerFile) -> None:
    with pytest.raises(SettingsError, match=r"does not give the reference's ids for .*no_regex.json.*engine: auto"):
        choose_engine(other, GIGATOKEN, tmp_path / "memory")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda description: description.update(normalizer={"type": "NFC"}), "it makes"),
        (lambda description: description.update(normalizer={"type": "Lowercase"}), "Unsupported normalizer"),
        (lambda description: description.update(pre_tokenizer={"type": "WhitespaceSplit"}), "Unsupported pre_token"),
    ],
)
def test_the_comparison_tells_what_gigatoken_cannot_do(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    description = small_tokenizer.description()
    change(description)
    assert says in (find_difference(small_tokenizer.save(tmp_path / "changed.json", description)) or "")


def test_without_gigatoken_the_reference_is_taken_and_a_wish_for_it_is_refused(
    tmp_path: Path, tokenizer: TokenizerFile, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert choose_engine(tokenizer, AUTO, tmp_path) is EngineName.huggingface
    assert caplog.records == []
    with pytest.raises(SettingsError, match=r"not installed. Install it with `pip install 'marin-assets\[fast\]'`"):
        choose_engine(tokenizer, GIGATOKEN, tmp_path)


def test_the_reference_needs_no_comparison(
    tmp_path: Path, tokenizer: TokenizerFile, comparisons: list[TokenizerFile]
) -> None:
    assert choose_engine(tokenizer, HUGGINGFACE, tmp_path) is EngineName.huggingface
    assert comparisons == []


def test_the_texts_are_of_many_kinds() -> None:
    texts = "".join(engine_check.check_texts())
    for part in ("<|endoftext|>", "вода", "水", "🙂", "they've", "   ", "\u00a0", "a" * 300, "1234567890"):
        assert part in texts


def test_whether_gigatoken_is_installed_is_no_part_of_the_code_version() -> None:
    libraries = code_version("marin_assets.stages.tokenize").libraries
    assert "tokenizers" in libraries
    assert "gigatoken" not in libraries
