import json
import logging
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import InputError
from marin_assets.stages import tokenize as tokenize_module
from marin_assets.stages.engine_check import EngineSetting
from marin_assets.stages.tables import Column, part_name, write_part
from marin_assets.stages.text_encoder import PIECE_CHARACTERS
from marin_assets.stages.token_cache import TokenCache
from marin_assets.stages.tokenize import TokenizeConfig, TokenizeStats, tokenize
from marin_assets.stages.tokenizer_file import TokenizerFile
from marin_assets_tests.artifacts.in_memory import published, writer
from marin_assets_tests.stages import small_tokenizer
from marin_assets_tests.stages.small_tokenizer import EOS, plain_ids

TEXTS = [f"{sentence} Page {number}." for number in range(15) for sentence in small_tokenizer.SENTENCES]
DOCUMENT_COLUMNS = (Column("id", "string", ""), Column("text", "string", ""), Column("source_id", "string", ""))


def document_id(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())


def documents_of(directory: Path, texts: Iterable[str], parts: int = 1) -> Artifact:
    """Documents as consolidation leaves them: sorted by id, in parts by id range."""
    out = writer(directory)
    rows = sorted((document_id(text), text, "page") for text in texts)
    size = -(-len(rows) // parts)
    for index in range(parts):
        schema = {column.name: pl.String() for column in DOCUMENT_COLUMNS}
        frame = pl.DataFrame(rows[index * size : (index + 1) * size], schema=schema, orient="row")
        name = part_name(index, parts)
        write_part(out.path(name), frame, DOCUMENT_COLUMNS)
        out.add(name, rows=len(frame))
    return published(out)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TokenizerFile:
    return small_tokenizer.save(tmp_path_factory.mktemp("tokenizer") / "small.json")


def run(
    directory: Path, documents: Artifact, tokenizer: TokenizerFile, config: TokenizeConfig | None = None
) -> tuple[Artifact, TokenizeStats]:
    out = writer(directory)
    stats = tokenize(documents, tokenizer, config or TokenizeConfig(workers=1), out)
    return published(out, "token_cache", stats), stats


def rows_of(directory: Path, split: str) -> dict[str, list[int]]:
    """Each document's ids, read from the cache and the document ids beside it."""
    cache = TokenCache.open(directory / split)
    flat = np.concatenate([np.empty(0, np.int32), *cache.token_chunks()])
    parts = sorted((directory / split / "document_ids").iterdir())
    ids = pl.concat([pl.read_parquet(path) for path in parts])["id"].to_list()
    offsets = cache.row_offsets()
    assert len(ids) == cache.rows
    return {name: flat[offsets[n] : offsets[n + 1]].tolist() for n, name in enumerate(ids)}


def test_each_document_is_a_row_of_its_tokens_and_one_eos(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    texts = [*TEXTS, "", " ", EOS, f"before {EOS}{EOS} after"]
    run(tmp_path / "out", documents_of(tmp_path / "in", texts), tokenizer)

    rows = rows_of(tmp_path / "out", "train") | rows_of(tmp_path / "out", "validation")

    eos = small_tokenizer.description()["model"]["vocab"][EOS]
    assert rows == {document_id(text): [*plain_ids(text), eos] for text in texts}
    for text in texts:
        ids = rows[document_id(text)]
        assert ids.count(eos) == 1
        assert small_tokenizer.decode(ids[:-1]) == text


@settings(deadline=None, max_examples=20)
@given(texts=st.lists(st.text(max_size=20) | st.sampled_from([EOS, "<|note|>"]), min_size=1, max_size=6, unique=True))
def test_no_text_is_lost_or_changed(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: TokenizerFile, texts: list[str]
) -> None:
    directory = tmp_path_factory.mktemp("property")
    run(directory / "out", documents_of(directory / "in", texts, parts=1), tokenizer)
    rows = rows_of(directory / "out", "train") | rows_of(directory / "out", "validation")
    assert {name: small_tokenizer.decode(ids[:-1]) for name, ids in rows.items()} == {
        document_id(text): text for text in texts
    }


def test_rows_are_in_the_order_of_the_documents(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    documents = documents_of(tmp_path / "in", TEXTS, parts=3)
    artifact, _ = run(tmp_path / "out", documents, tokenizer)
    for split in ("train", "validation"):
        ids = list(rows_of(tmp_path / "out", split))
        assert ids == sorted(ids)
        assert [shard.name for shard in TokenCache.open(tmp_path / "out" / split).shards] == [
            f"part-{number:05d}-of-00003" for number in range(3)
        ]
    assert sum(entry.rows or 0 for entry in artifact.files("*/document_ids/*")) == len(TEXTS)


def test_a_document_keeps_its_side_when_the_corpus_grows(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    config = TokenizeConfig(validation_fraction=0.3, workers=1)
    run(tmp_path / "small", documents_of(tmp_path / "in1", TEXTS[:30]), tokenizer, config)
    run(tmp_path / "large", documents_of(tmp_path / "in2", TEXTS, parts=2), tokenizer, config)
    for split in ("train", "validation"):
        assert rows_of(tmp_path / "small", split).items() <= rows_of(tmp_path / "large", split).items()


def test_a_larger_fraction_only_adds_to_validation() -> None:
    ids = pl.Series([document_id(str(number)) for number in range(4000)])
    chosen = [tokenize_module._in_validation(ids, fraction) for fraction in (0.0, 0.05, 0.3, 0.999999)]
    assert [mask.sum() / len(ids) for mask in chosen] == pytest.approx([0.0, 0.05, 0.3, 1.0], abs=0.02)
    assert all((~smaller | larger).all() for smaller, larger in pairwise(chosen))


def test_the_side_of_a_document_is_fixed_for_good() -> None:
    """Changing the hash would leak validation documents into the training of those who go on from a checkpoint."""
    ids = pl.Series([document_id(str(number)) for number in range(40)])
    chosen = tokenize_module._in_validation(ids, 0.2)
    assert chosen.arg_true().to_list() == [14, 19, 25, 28, 36]


@pytest.mark.parametrize(
    ("fraction", "full", "empty"), [(0.0, "train", "validation"), (0.9999999, "validation", "train")]
)
def test_a_split_may_be_empty(tmp_path: Path, tokenizer: TokenizerFile, fraction: float, full: str, empty: str) -> None:
    config = TokenizeConfig(validation_fraction=fraction, workers=1)
    artifact, _ = run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS, parts=2), tokenizer, config)
    assert len(rows_of(tmp_path / "out", full)) == len(TEXTS)
    assert rows_of(tmp_path / "out", empty) == {}
    assert json.loads(artifact.path(f"{empty}/stats.json").read_text())["tokens"] == 0


def test_workers_and_batches_do_not_change_a_byte(
    tmp_path: Path, tokenizer: TokenizerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = documents_of(tmp_path / "in", TEXTS, parts=2)
    digests = [
        run(tmp_path / f"{workers}", documents, tokenizer, TokenizeConfig(workers=workers))[0].content_digest
        for workers in (1, 2)
    ]
    monkeypatch.setattr(tokenize_module, "_BATCH_CHARACTERS", 100)
    monkeypatch.setattr(tokenize_module, "_SLICE_ROWS", 3)
    digests.append(run(tmp_path / "tiny batches", documents, tokenizer)[0].content_digest)
    assert len(set(digests)) == 1


def test_a_very_long_document_gets_the_ids_of_the_whole(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    text = "".join(f"{sentence}{number}/+" for number in range(2500) for sentence in small_tokenizer.SENTENCES)
    assert len(text) > 2 * PIECE_CHARACTERS
    config = TokenizeConfig(validation_fraction=0, workers=1)
    _, stats = run(tmp_path / "out", documents_of(tmp_path / "in", [*TEXTS, text]), tokenizer, config)
    rows = rows_of(tmp_path / "out", "train")
    assert rows[document_id(text)][:-1] == plain_ids(text)
    assert rows[document_id(TEXTS[0])][:-1] == plain_ids(TEXTS[0])
    assert stats.longest_document_tokens == len(rows[document_id(text)])


def test_counts_add_up_and_stand_beside_the_tokens(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    config = TokenizeConfig(validation_fraction=0.2, workers=1)
    artifact, stats = run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS, parts=2), tokenizer, config)

    assert stats.documents == stats.train.documents + stats.validation.documents == len(TEXTS)
    assert stats.tokens == stats.train.tokens + stats.validation.tokens
    assert stats.text_bytes == stats.train.text_bytes + stats.validation.text_bytes == len("".join(TEXTS).encode())
    assert stats.bytes_per_token == stats.text_bytes / stats.tokens
    assert (stats.vocabulary_size, stats.eos_token, stats.eos_id) == (400, EOS, 0)
    assert (stats.tokenizer, stats.tokenizer_digest) == ("small", tokenizer.digest)
    for split, counted in (("train", stats.train), ("validation", stats.validation)):
        rows = rows_of(tmp_path / "out", split)
        lengths = [len(row) for row in rows.values()]
        assert (counted.documents, counted.tokens) == (len(rows), sum(lengths))
        assert counted.longest_document_tokens == max(lengths)
        assert json.loads(artifact.path(f"{split}/stats.json").read_text()) == {
            "documents": counted.documents,
            "tokens": counted.tokens,
            "text_bytes": counted.text_bytes,
            "bytes_per_token": counted.bytes_per_token,
            "longest_document_tokens": counted.longest_document_tokens,
            "tokenizer_digest": tokenizer.digest,
            "vocabulary_size": 400,
            "eos_token": EOS,
            "eos_id": 0,
        }
        parts = [pl.read_parquet(path) for path in artifact.paths(f"{split}/document_ids/*")]
        assert pl.concat(parts)["tokens"].to_list() == lengths
    assert artifact.manifest.columns == {"input_ids": "list<int32>"}


def test_the_artifact_holds_the_tokenizer_and_nothing_temporary(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    artifact, _ = run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS), tokenizer)
    assert artifact.path("tokenizer.json").read_bytes() == tokenizer.path.read_bytes()
    assert [entry.name for entry in artifact.files("train/*")] == [
        "train/document_ids/part-00000-of-00001.parquet",
        "train/part-00000-of-00001/.success",
        "train/part-00000-of-00001/input_ids/data/c/0",
        "train/part-00000-of-00001/input_ids/data/zarr.json",
        "train/part-00000-of-00001/input_ids/offsets/c/0",
        "train/part-00000-of-00001/input_ids/offsets/zarr.json",
        "train/part-00000-of-00001/shard_ledger.json",
        "train/shard_ledger.json",
        "train/stats.json",
    ]
    assert {entry.name.split("/")[0] for entry in artifact.files()} == {"tokenizer.json", "train", "validation"}
    assert list((tmp_path / "out" / ".scratch" / "tokens").iterdir()) == []


def test_progress_is_logged(tmp_path: Path, tokenizer: TokenizerFile, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS, parts=2), tokenizer)
    assert [message.split(":")[0] for message in caplog.messages][1:] == [
        "tokenized part 1 of 2",
        "tokenized part 2 of 2",
    ]


@pytest.mark.parametrize("parts", [1, 2])
def test_no_documents_at_all_is_an_error(tmp_path: Path, tokenizer: TokenizerFile, parts: int) -> None:
    documents = documents_of(tmp_path / "in", [], parts)
    with pytest.raises(InputError, match="in: has no documents to tokenize"):
        run(tmp_path / "out", documents, tokenizer)


def test_an_empty_part_among_others_is_fine(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS[:2], parts=3), tokenizer)
    assert len(rows_of(tmp_path / "out", "train") | rows_of(tmp_path / "out", "validation")) == 2


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pl.DataFrame({"id": ["a"]}), "needs the string columns `id` and `text`; it has {'id': String}"),
        (pl.DataFrame({"id": ["a", "b"], "text": ["x", None]}), "row 1 has no `id` or no `text`"),
        (pl.DataFrame({"id": ["a"], "text": [1]}), "needs the string columns `id` and `text`; it has .*Int64"),
    ],
)
def test_a_part_that_is_not_of_documents_is_named(
    tmp_path: Path, tokenizer: TokenizerFile, frame: pl.DataFrame, says: str
) -> None:
    out = writer(tmp_path / "in")
    frame.write_parquet(out.path("part-00000-of-00001.parquet"))
    out.add("part-00000-of-00001.parquet")
    with pytest.raises(InputError, match=f"part-00000-of-00001.parquet: .*{says}"):
        run(tmp_path / "out", published(out), tokenizer)


def test_a_part_that_is_not_parquet_is_named(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    out = writer(tmp_path / "in")
    out.path("part-00000-of-00001.parquet").write_text("no")
    out.add("part-00000-of-00001.parquet")
    with pytest.raises(InputError, match=r"part-00000-of-00001.parquet: cannot be read as documents"):
        run(tmp_path / "out", published(out), tokenizer)


def test_a_tokenizer_that_changed_since_its_digest_was_taken_is_refused(tmp_path: Path) -> None:
    tokenizer = small_tokenizer.save(tmp_path / "small.json")
    tokenizer.path.write_text("{}")
    with pytest.raises(InputError, match=r"small.json: was changed since this run looked at it"):
        run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS), tokenizer)


def test_a_tokenizer_that_cannot_be_used_is_named_by_its_own_path(tmp_path: Path) -> None:
    tokenizer = small_tokenizer.save(tmp_path / "mine.json", {"model": {}})
    with pytest.raises(InputError, match=r"mine.json: not a tokenizer"):
        run(tmp_path / "out", documents_of(tmp_path / "in", TEXTS), tokenizer)


def test_a_model_that_holds_eos_as_a_word_is_refused_with_the_document(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1}, unk_token="<unk>")).save(str(path))
    tokenizer = TokenizerFile(path, file_digest(path), "words")
    with pytest.raises(InputError, match=f"document {document_id('</s>')}: .* end of sequence, '</s>'"):
        run(tmp_path / "out", documents_of(tmp_path / "in", ["other", "</s>"]), tokenizer)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2.0])
def test_a_fraction_outside_its_range_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="validation_fraction"):
        TokenizeConfig(validation_fraction=fraction)


def test_the_engine_does_not_change_a_byte(tmp_path: Path, tokenizer: TokenizerFile) -> None:
    documents = documents_of(tmp_path / "in", [*TEXTS, EOS, "", "x" * 3000], parts=2)
    digests = {
        run(tmp_path / engine, documents, tokenizer, TokenizeConfig(engine=engine, workers=1))[0].content_digest
        for engine in EngineSetting
    }
    assert len(digests) == 1


def test_engine_and_workers_are_no_part_of_what_decides_the_output() -> None:
    assert TokenizeConfig(workers=4, engine=EngineSetting.huggingface).semantic() == {"validation_fraction": 0.05}
