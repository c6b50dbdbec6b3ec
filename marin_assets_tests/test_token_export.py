import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.artifacts.artifact import Artifact
from marin_assets.errors import InputError
from marin_assets.stages.token_cache import TokenCache, TokenShardWriter, write_cache_ledger
from marin_assets.token_export import export_tokens
from marin_assets.token_formats import TokenFormat
from marin_assets_tests.artifacts.in_memory import published, writer

Documents = list[list[int]]


def token_cache(directory: Path, train: Documents, validation: Documents, vocabulary_size: int = 50_257) -> Artifact:
    """A `token_cache` artifact of these documents, in two shards."""
    out = writer(directory)
    for split, documents in (("train", train), ("validation", validation)):
        shards = []
        half = len(documents) // 2
        for name, rows in (("part-00000-of-00002", documents[:half]), ("part-00001-of-00002", documents[half:])):
            shard = TokenShardWriter(
                directory / split / name, directory / "flat", vocabulary_size=vocabulary_size, metadata={}
            )
            with shard:
                ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
                shard.append(np.array([one for row in rows for one in row], dtype=np.int32), ends, ["document"])
            shards.append(shard.counts)
        write_cache_ledger(directory / split, shards, {})
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            out.add(path.relative_to(directory).as_posix())
    return published(out, "token_cache", {"vocabulary_size": vocabulary_size, "tokenizer": "gpt2"})


TRAIN = [[1, 2, 3, 0], [0], [50_256, 7, 0], [9] * 5 + [0], [4, 0]]
VALIDATION = [[5, 0], [6, 6, 0]]


def flat(documents: Documents) -> list[int]:
    return [one for document in documents for one in document]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return token_cache(tmp_path_factory.mktemp("cache"), TRAIN, VALIDATION)


def read_megatron(prefix: Path) -> Documents:
    """Megatron-LM's MMIDIDX, read by its description."""
    index = prefix.with_name(prefix.name + ".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    position = 34
    lengths = np.frombuffer(index, "<i4", sequences, position)
    pointers = np.frombuffer(index, "<i8", sequences, position + 4 * sequences)
    starts = np.frombuffer(index, "<i8", documents, position + 12 * sequences)
    assert len(index) == position + 12 * sequences + 8 * documents
    assert starts.tolist() == list(range(sequences + 1)), "each document is one sequence"
    data_type = {8: "<u2", 4: "<i4"}[code]
    content = prefix.with_name(prefix.name + ".bin").read_bytes()
    assert len(content) == lengths.sum() * np.dtype(data_type).itemsize
    return [
        np.frombuffer(content, data_type, length, pointer).tolist()
        for length, pointer in zip(lengths, pointers, strict=True)
    ]


def read_datatrove(path: Path) -> Documents:
    """datatrove's `.ds`, read by its description."""
    tokenizer, total, _ = path.with_name(path.name + ".metadata").read_text().split("\n")
    name, token_bytes = tokenizer.split("|")
    assert name == "gpt2"
    ids = np.fromfile(path, {"2": "<u2", "4": "<u4"}[token_bytes])
    assert len(ids) == int(total)
    ends = np.fromfile(path.with_name(path.name + ".index"), "<u8")
    assert ends[-1] == len(ids)
    return [row.tolist() for row in np.split(ids, ends[:-1].astype(int))]


def test_bin_is_what_nanogpt_maps_into_memory(tmp_path: Path, tokens: Artifact) -> None:
    files = export_tokens(tokens, TokenFormat.bin, tmp_path)
    assert files == [tmp_path / "train.bin", tmp_path / "val.bin"]
    assert np.memmap(files[0], dtype=np.uint16, mode="r").tolist() == flat(TRAIN)
    assert np.memmap(files[1], dtype=np.uint16, mode="r").tolist() == flat(VALIDATION)


def test_megatron_has_each_document_as_a_sequence(tmp_path: Path, tokens: Artifact) -> None:
    files = export_tokens(tokens, TokenFormat.megatron, tmp_path)
    assert [path.name for path in files] == ["train.bin", "train.idx", "validation.bin", "validation.idx"]
    assert read_megatron(tmp_path / "train") == TRAIN
    assert read_megatron(tmp_path / "validation") == VALIDATION


def test_datatrove_has_the_end_of_each_document(tmp_path: Path, tokens: Artifact) -> None:
    files = export_tokens(tokens, TokenFormat.datatrove, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in files[:3]] == [
        "train/00000_tokens.ds",
        "train/00000_tokens.ds.index",
        "train/00000_tokens.ds.metadata",
    ]
    assert read_datatrove(files[0]) == TRAIN
    assert read_datatrove(files[3]) == VALIDATION


@pytest.mark.parametrize(
    ("vocabulary_size", "megatron", "datatrove"),
    [(65_499, 2, 2), (65_500, 4, 2), (65_536, 4, 2), (65_537, 4, 4), (128_256, 4, 4)],
)
def test_ids_take_four_bytes_where_the_vocabulary_needs_them(
    tmp_path: Path, vocabulary_size: int, megatron: int, datatrove: int
) -> None:
    documents = [[vocabulary_size - 1, 0]]
    tokens = token_cache(tmp_path / "cache", documents, documents, vocabulary_size)
    export_tokens(tokens, TokenFormat.megatron, tmp_path)
    export_tokens(tokens, TokenFormat.datatrove, tmp_path)
    assert (tmp_path / "train.bin").stat().st_size == 2 * megatron
    assert (tmp_path / "train/00000_tokens.ds").stat().st_size == 2 * datatrove
    assert read_megatron(tmp_path / "train") == read_datatrove(tmp_path / "train/00000_tokens.ds") == documents


def test_bin_refuses_a_vocabulary_that_two_bytes_cannot_name(tmp_path: Path) -> None:
    export_tokens(token_cache(tmp_path / "fits", [[65_535]], [[0]], 65_536), TokenFormat.bin, tmp_path)
    assert np.fromfile(tmp_path / "train.bin", np.uint16).tolist() == [65_535]

    large = token_cache(tmp_path / "large", [[65_536]], [[0]], 65_537)
    with pytest.raises(InputError, match=r"has 65537 tokens, more than 65536. Use `--format megatron`"):
        export_tokens(large, TokenFormat.bin, tmp_path / "other")


def test_a_split_can_be_chosen(tmp_path: Path, tokens: Artifact) -> None:
    assert export_tokens(tokens, TokenFormat.bin, tmp_path, ["validation"]) == [tmp_path / "val.bin"]


def test_a_split_without_documents_is_left_out_unless_it_was_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = token_cache(tmp_path / "cache", TRAIN, [])
    assert export_tokens(tokens, TokenFormat.bin, tmp_path) == [tmp_path / "train.bin"]
    assert caplog.messages == ["the split validation has no documents and is left out"]
    with pytest.raises(InputError, match="the split validation has no documents"):
        export_tokens(tokens, TokenFormat.bin, tmp_path, ["validation"])


def test_what_was_exported_stays_whole_when_the_cache_is_damaged(tmp_path: Path) -> None:
    tokens = token_cache(tmp_path / "cache", TRAIN, VALIDATION)
    export_tokens(tokens, TokenFormat.megatron, tmp_path)
    next((tmp_path / "cache/train").glob("part-00001-*/input_ids/data/c/0")).unlink()
    with pytest.raises(InputError, match="c/0 is missing"):
        export_tokens(tokens, TokenFormat.megatron, tmp_path)
    assert read_megatron(tmp_path / "train") == TRAIN
    assert list(tmp_path.glob("*.partial")) == []


def test_an_artifact_that_is_no_token_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a token cache"):
        export_tokens(published(writer(tmp_path)), TokenFormat.bin, tmp_path)


@settings(deadline=None, max_examples=15)
@given(train=st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=9), min_size=1, max_size=9))
def test_every_format_holds_what_the_cache_holds(tmp_path_factory: pytest.TempPathFactory, train: Documents) -> None:
    directory = tmp_path_factory.mktemp("property")
    tokens = token_cache(directory / "cache", train, [[0]], 1000)
    for token_format in TokenFormat:
        export_tokens(tokens, token_format, directory / token_format)
    assert TokenCache.open(directory / "cache/train").rows == len(train)
    assert np.fromfile(directory / "bin/train.bin", np.uint16).tolist() == flat(train)
    assert read_megatron(directory / "megatron/train") == train
    assert read_datatrove(directory / "datatrove/train/00000_tokens.ds") == train
