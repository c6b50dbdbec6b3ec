"""A token cache artifact is opened and trained on; what is none is refused."""

from pathlib import Path

import numpy as np
import pytest

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.corpus import open_corpus
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.trainer import train, train_on
from marin_assets.stages.token_cache import ShardCounts, TokenShardWriter, write_cache_ledger
from marin_assets_tests.artifacts.in_memory import published, writer
from marin_assets_tests.gpt2.corpora import (
    END_OF_TEXT,
    END_OF_TEXT_ID,
    VOCABULARY_SIZE,
    TokensInMemory,
    byte_tokenizer,
    corpus,
)

STATS = {
    "vocabulary_size": VOCABULARY_SIZE,
    "eos_token": END_OF_TEXT,
    "eos_id": END_OF_TEXT_ID,
    "validation": {"bytes_per_token": 0.5, "tokens": 3},
}


def token_cache(directory: Path, splits: dict[str, TokensInMemory], stats: dict[str, object] = STATS) -> Artifact:
    """An artifact of these tokens, each split in two shards."""
    out = writer(directory)
    for split, tokens in splits.items():
        cut = len(tokens.ids) // 2
        shards: list[ShardCounts] = []
        for number, ids in enumerate((tokens.ids[:cut], tokens.ids[cut:])):
            shard = f"part-{number:05d}-of-00002"
            with TokenShardWriter(
                directory / split / shard, directory / "flat", vocabulary_size=VOCABULARY_SIZE, metadata={}
            ) as shard_writer:
                shard_writer.append(ids, np.array([len(ids)]), ["document"])
            shards.append(shard_writer.counts)
        write_cache_ledger(directory / split, shards, {})
    byte_tokenizer(directory / "tokenizer.json")
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            out.add(str(path.relative_to(directory)))
    return published(out, "token_cache", stats)


def test_training_on_the_artifact_equals_training_on_its_tokens(tmp_path: Path) -> None:
    made = corpus(tmp_path / "corpus")
    assert isinstance(made.train, TokensInMemory)
    assert isinstance(made.validation, TokensInMemory)
    artifact = token_cache(tmp_path / "cache", {"train": made.train, "validation": made.validation})

    opened = open_corpus(artifact)
    assert opened.train.total_tokens == made.train.total_tokens
    assert opened.validation_bytes_per_token == 0.5
    assert (opened.end_of_text, opened.end_of_text_id) == (END_OF_TEXT, END_OF_TEXT_ID)
    assert opened.digest == artifact.content_digest

    machine = Machine("cpu", 1)
    train(artifact, TrainingConfig(), machine, writer(tmp_path / "one"))
    train_on(made, TrainingConfig(), machine, writer(tmp_path / "two"))
    name = "hf/model.safetensors"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_artifact_that_is_no_token_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="are not those of a token cache: vocabulary_size: Field required"):
        open_corpus(published(writer(tmp_path)))


def test_a_token_cache_without_a_split_is_refused(tmp_path: Path) -> None:
    artifact = token_cache(tmp_path, {"train": TokensInMemory(np.zeros(9, dtype=np.int32))})
    with pytest.raises(InputError, match=r"has no file 'validation/shard_ledger\.json'"):
        open_corpus(artifact)
