"""`marin-assets` as a user calls it."""

import re
from pathlib import Path

import pytest

from marin_assets import cli
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import TokensInMemory, corpus
from marin_assets_tests.gpt2.test_corpus import token_cache

SENTENCE = "The river sees the old mountain. "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that knows one sentence, and beside it the tokens that it was validated on."""
    directory = tmp_path_factory.mktemp("learned")
    made = corpus(directory / "corpus", documents=[SENTENCE * 40], validation=[SENTENCE * 6])
    config = TrainingConfig(steps=150, learning_rate=1e-2, batch_size=4, eval_every=0)
    train_on(made, config, Machine("cpu", 1), writer(directory / "model"))
    assert isinstance(made.validation, TokensInMemory)
    token_cache(directory / "tokens", {"validation": made.validation})
    return directory / "model"


def test_generate_goes_on_from_a_prompt(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model", str(model), "--prompt", "The river", "--temperature", "0", "--max-new-tokens", "40")
    cli.commands(("generate", *options), standalone_mode=False)
    assert capsys.readouterr().out.startswith("The river sees the old mountain. The river sees")


def test_generate_gives_the_same_text_for_the_same_seed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        options = ("--model", str(model / "hf"), "--prompt", "zq", "--temperature", "3", "--top-p", "0.95")
        cli.commands(("generate", *options, "--seed", seed), standalone_mode=False)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_evaluate_shows_a_row_for_each_text(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, unknown = tmp_path / "known", tmp_path / "unknown"
    known.write_text(SENTENCE * 3)
    unknown.write_text("Jack quizzed five dwarves.")
    tokens = model.parent / "tokens"
    options = ("--model", str(model), "--tokens", str(tokens), str(known), str(unknown))
    cli.commands(("evaluate", *options), standalone_mode=False)
    losses = [float(line.split()[-3]) for line in capsys.readouterr().out.splitlines() if re.search(r"\d\.\d{4}", line)]
    assert len(losses) == 3
    assert losses[0] < 0.3 < 3 < losses[1]
    assert losses[2] < 0.3


def test_a_folder_that_is_no_model_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["marin-assets", "generate", "--prompt", "a", "--model", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "has no config.json; give the directory of a Hugging Face GPT-2" in capsys.readouterr().err.replace("\n", "")
