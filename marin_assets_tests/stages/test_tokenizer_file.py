import os
import subprocess
import sys
from pathlib import Path

import pytest

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import SettingsError
from marin_assets.stages.tokenizer_file import TokenizerFile, tokenizer_file


def test_a_path_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gpt2_tokenizer.json"
    path.write_text("{}")
    assert tokenizer_file(str(path)) == TokenizerFile(path, file_digest(path), "gpt2_tokenizer")


def test_a_folder_that_holds_one_gives_its_name(tmp_path: Path) -> None:
    path = tmp_path / "my-model" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text("{}")
    expected = TokenizerFile(path, file_digest(path), "my-model")
    assert tokenizer_file(str(path.parent)) == expected
    assert tokenizer_file(str(path)) == expected


@pytest.mark.parametrize("setting", ["", "nowhere/tokenizer.json", "./nowhere", "a/b/c", "/nowhere"])
def test_a_path_where_nothing_is(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=f"MARIN_TOKENIZER: there is no file {setting!r}.*Set it to the path"):
        tokenizer_file(setting)


def resolve_offline(name: str, hub_cache: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys\n"
        "from marin_assets.stages.tokenizer_file import tokenizer_file\n"
        f"print(tokenizer_file({name!r}))\n"
        "assert 'tokenizers' not in sys.modules\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(hub_cache)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_a_hugging_face_name_that_is_cached_needs_no_network(tmp_path: Path) -> None:
    repository = tmp_path / "models--someone--small"
    commit = "0" * 40
    path = repository / "snapshots" / commit / "tokenizer.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)

    resolved = resolve_offline("someone/small", tmp_path)

    assert resolved.returncode == 0, resolved.stderr
    assert resolved.stdout.strip() == repr(TokenizerFile(path, file_digest(path), "someone/small"))


def test_a_hugging_face_name_that_cannot_be_reached_says_what_to_do(tmp_path: Path) -> None:
    resolved = resolve_offline("someone/unknown", tmp_path)
    assert "SettingsError: MARIN_TOKENIZER: cannot get tokenizer.json of 'someone/unknown'" in resolved.stderr
    assert "Check the name and the network, or set it to the path" in resolved.stderr
