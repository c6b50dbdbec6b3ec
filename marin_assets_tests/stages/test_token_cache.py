import json
import shutil
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.errors import InputError
from marin_assets.stages import token_cache
from marin_assets.stages.token_cache import ShardCounts, TokenCache, TokenShardWriter, write_cache_ledger

VOCABULARY_SIZE = 1000
METADATA = {"eos_id": 7}
Rows = list[list[int]]


def write_shard(directory: Path, rows: Rows) -> ShardCounts:
    directory.parent.mkdir(parents=True, exist_ok=True)
    flat_file = directory.parent / "flat"
    with TokenShardWriter(directory, flat_file, vocabulary_size=VOCABULARY_SIZE, metadata=METADATA) as writer:
        for number, row in enumerate(rows):
            ids = np.array(row, dtype=np.int32)
            writer.append(ids, np.array([len(row)], dtype=np.int64), [str(number)])
    assert not flat_file.exists()
    return writer.counts


def write_cache(directory: Path, shards: list[Rows]) -> TokenCache:
    counts = [write_shard(directory / f"part-{number:05d}", rows) for number, rows in enumerate(shards)]
    write_cache_ledger(directory, counts, METADATA)
    return TokenCache.open(directory)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


rows_of_tokens = st.lists(st.lists(st.integers(0, VOCABULARY_SIZE - 1), max_size=6), max_size=6)


@settings(deadline=None, max_examples=20)
@given(shards=st.lists(rows_of_tokens, max_size=3), chunk=st.integers(1, 20))
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, shards: list[Rows], chunk: int) -> None:
    directory = tmp_path_factory.mktemp("cache")
    cache = write_cache(directory, shards)

    rows = [row for shard in shards for row in shard]
    flat = [token for row in rows for token in row]
    chunks = list(cache.token_chunks(chunk))
    assert cache.rows == len(rows)
    assert cache.total_tokens == len(flat)
    assert [token for part in chunks for token in part.tolist()] == flat
    assert all(0 < len(part) <= chunk and part.dtype == np.int32 for part in chunks)
    assert cache.row_offsets().tolist() == list(accumulate(map(len, rows), initial=0))
    shutil.rmtree(directory)


def test_a_row_may_be_appended_in_pieces(tmp_path: Path) -> None:
    with TokenShardWriter(tmp_path / "a", tmp_path / "flat", vocabulary_size=100, metadata=METADATA) as writer:
        writer.append(np.array([1, 2, 3], np.int32), np.array([2], np.int64), ["first", "second"])
        writer.append(np.array([4], np.int32), np.array([], np.int64), ["second"])
        writer.append(np.array([5, 6], np.int32), np.array([1, 1, 2], np.int64), ["second", "empty", "last"])
    assert writer.row_lengths().tolist() == [2, 3, 0, 1]
    write_cache_ledger(tmp_path, [writer.counts], METADATA)
    assert TokenCache.open(tmp_path).row_offsets().tolist() == [0, 2, 5, 5, 6]


def test_long_data_spans_the_inner_chunks(tmp_path: Path) -> None:
    row = np.random.default_rng(0).integers(0, VOCABULARY_SIZE, 600_000).tolist()
    cache = write_cache(tmp_path, [[row, row[:5]]])
    assert np.concatenate(list(cache.token_chunks(100_000))).tolist() == row + row[:5]


def test_data_beyond_one_file_goes_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_CHUNK", 8)
    monkeypatch.setattr(token_cache, "_INNER_CHUNK", 4)
    cache = write_cache(tmp_path, [[[1, 2, 3]] * 9])
    assert {path.name for path in (tmp_path / "part-00000/input_ids/data/c").iterdir()} == {"0", "1", "2", "3"}
    assert np.concatenate(list(cache.token_chunks(5))).tolist() == [1, 2, 3] * 9
    assert cache.row_offsets().tolist() == list(range(0, 28, 3))


def test_the_same_ids_give_the_same_bytes_however_they_were_appended(tmp_path: Path) -> None:
    rows = [np.random.default_rng(n).integers(0, VOCABULARY_SIZE, 70_000).tolist() for n in range(5)]
    write_shard(tmp_path / "one" / "shard", rows)
    with TokenShardWriter(
        tmp_path / "two" / "shard", tmp_path / "flat", vocabulary_size=VOCABULARY_SIZE, metadata=METADATA
    ) as writer:
        flat = np.concatenate(rows).astype(np.int32)
        writer.append(flat, np.cumsum([len(row) for row in rows], dtype=np.int64), list("abcde"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("token", [-1, VOCABULARY_SIZE, 2**31 - 1])
def test_an_id_outside_the_vocabulary_names_its_document(tmp_path: Path, token: int) -> None:
    writer = TokenShardWriter(tmp_path / "a", tmp_path / "flat", vocabulary_size=VOCABULARY_SIZE, metadata=METADATA)
    ids = np.array([1, 2, token, 3, 4], np.int32)
    with pytest.raises(InputError, match=rf"document second: token id {token} .* 1000 tokens"), writer:
        writer.append(ids, np.array([2, 4], np.int64), ["first", "second", "third"])
    assert not (tmp_path / "a" / "shard_ledger.json").exists(), "the shard is not finished"
    assert not (tmp_path / "flat").exists()


def test_the_layout_is_the_one_that_levanter_reads(tmp_path: Path) -> None:
    write_cache(tmp_path, [[[1, 2], [3]], []])

    assert sorted(contents(tmp_path)) == [
        "part-00000/.success",
        "part-00000/input_ids/data/c/0",
        "part-00000/input_ids/data/zarr.json",
        "part-00000/input_ids/offsets/c/0",
        "part-00000/input_ids/offsets/zarr.json",
        "part-00000/shard_ledger.json",
        "part-00001/.success",
        "part-00001/input_ids/data/zarr.json",
        "part-00001/input_ids/offsets/c/0",
        "part-00001/input_ids/offsets/zarr.json",
        "part-00001/shard_ledger.json",
        "shard_ledger.json",
    ]
    for array, data_type, bytes_each in (("data", "int32", 4), ("offsets", "int64", 8)):
        zarr: dict[str, Any] = json.loads((tmp_path / "part-00000/input_ids" / array / "zarr.json").read_text())
        assert zarr["zarr_format"] == 3
        assert zarr["node_type"] == "array"
        assert zarr["data_type"] == data_type
        assert zarr["shape"] == [2**54]
        assert zarr["chunk_grid"] == {"name": "regular", "configuration": {"chunk_shape": [134_217_728]}}
        (sharding,) = zarr["codecs"]
        assert sharding["name"] == "sharding_indexed"
        assert sharding["configuration"]["chunk_shape"] == [262_144]
        blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": bytes_each, "blocksize": 0}
        assert sharding["configuration"]["codecs"] == [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "blosc", "configuration": blosc},
        ]
        assert [codec["name"] for codec in sharding["configuration"]["index_codecs"]] == ["bytes", "crc32c"]


def test_the_ledgers_are_those_that_levanter_reads(tmp_path: Path) -> None:
    write_cache(tmp_path, [[[1, 2], [3]], []])
    metadata = {"preprocessor_metadata": METADATA}
    assert json.loads((tmp_path / "shard_ledger.json").read_text()) == {
        "total_num_rows": 2,
        "shard_rows": {"part-00000": 2, "part-00001": 0},
        "is_finished": True,
        "finished_shards": ["part-00000", "part-00001"],
        "field_counts": {"input_ids": 3},
        "field_counts_by_shard": {"part-00000": {"input_ids": 3}, "part-00001": {"input_ids": 0}},
        "layout": "sharded",
        "metadata": metadata,
    }
    assert json.loads((tmp_path / "part-00000" / "shard_ledger.json").read_text()) == {
        "total_num_rows": 2,
        "shard_rows": {"part-00000": 2},
        "is_finished": True,
        "finished_shards": ["part-00000"],
        "field_counts": {"input_ids": 3},
        "field_counts_by_shard": {},
        "layout": "consolidated",
        "metadata": metadata,
    }


def test_other_files_beside_a_cache_do_not_matter(tmp_path: Path) -> None:
    write_cache(tmp_path, [[[1, 2]]])
    (tmp_path / "stats.json").write_text("{}")
    (tmp_path / "part-00000" / "notes.txt").write_text("?")
    assert TokenCache.open(tmp_path).total_tokens == 2


def test_a_folder_without_a_ledger_is_no_cache(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no shard_ledger.json. Build token_cache"):
        TokenCache.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"is_finished": False}, "is_finished=False"),
        ({"layout": "consolidated"}, "layout='consolidated'"),
        ({"field_counts_by_shard": {}}, "nothing is said of 'part-00000'"),
        ({"total_num_rows": "many"}, "not a ledger"),
    ],
)
def test_a_ledger_that_cannot_be_used_is_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    write_cache(tmp_path, [[[1, 2]]])
    path = tmp_path / "shard_ledger.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=f"shard_ledger.json: .*{says}"):
        TokenCache.open(tmp_path)


def test_an_array_that_is_not_what_the_ledger_says_is_named(tmp_path: Path) -> None:
    cache = write_cache(tmp_path, [[[1, 2], [3]]])
    write_shard(tmp_path / "part-00000", [[1], [2]])
    with pytest.raises(InputError, match="holds 2 rows and 2 tokens, and the ledger says 2 and 3"):
        cache.row_offsets()


@pytest.mark.parametrize("lost", ["zarr.json", "c/0"])
def test_a_lost_file_is_noticed(tmp_path: Path, lost: str) -> None:
    cache = write_cache(tmp_path, [[[0, 0], [0]]])
    (tmp_path / "part-00000/input_ids/offsets" / lost).unlink()
    with pytest.raises(InputError, match=r"offsets: .*Build token_cache again"):
        cache.row_offsets()
    (tmp_path / "part-00000/input_ids/data" / lost).unlink()
    with pytest.raises(InputError, match=r"data: .*Build token_cache again"):
        list(cache.token_chunks())
