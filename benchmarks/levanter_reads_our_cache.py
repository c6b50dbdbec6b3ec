"""Reads a token cache with Levanter's own reader, and compares rows and ids with what the `tokenizers` library says.

Levanter pins libraries that this package needs in other versions, so it has an environment of its own (Python 3.11):

    V=0.2.20.dev202606180959
    python3.11 -m venv /tmp/levanter
    /tmp/levanter/bin/pip install gitpython polars marin-levanter==$V marin-haliax==$V marin-fray==$V \
        marin-rigging==$V marin-zephyr==$V marin-iris==$V marin-core==$V

Then, with the folder of a `token_cache` artifact and that of the documents it was made from:

    /tmp/levanter/bin/python benchmarks/levanter_reads_our_cache.py TOKEN_CACHE DOCUMENTS

It imports nothing of this package. It exits with an error at the first difference.
"""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
from levanter.store.cache import TreeCache
from tokenizers import Tokenizer

EXEMPLAR = {"input_ids": np.zeros((0,), dtype=np.int32)}


def expected_rows(split: Path, texts: dict[str, str], tokenizer: Tokenizer, eos_id: int) -> list[list[int]]:
    """Each document's ids and the end of sequence, in the order of the document ids beside the cache."""
    ids = pl.concat([pl.read_parquet(path) for path in sorted(split.glob("document_ids/*.parquet"))])["id"]
    encodings = tokenizer.encode_batch([texts[document] for document in ids], add_special_tokens=False)
    return [[*encoding.ids, eos_id] for encoding in encodings]


def compare(split: Path, expected: list[list[int]]) -> None:
    cache = TreeCache.load(str(split), EXEMPLAR)
    tokens = sum(map(len, expected))
    assert cache.is_sharded
    assert len(cache) == len(expected), (len(cache), len(expected))
    assert cache.flat_field_length("input_ids") == tokens
    for first in range(0, len(expected), 512):
        rows = cache[first : first + 512]
        for row, wanted in zip(rows, expected[first : first + 512], strict=True):
            assert row["input_ids"].tolist() == wanted
    jagged = cache.jagged_array_tree()["input_ids"]
    ends = np.cumsum([len(row) for row in expected])
    if expected:
        assert jagged.offsets[: len(expected) + 1].read().result().tolist() == [len(expected), *ends.tolist()]
        flat = np.concatenate([np.array(row, dtype=np.int32) for row in expected])
        assert np.array_equal(jagged.data[0:tokens].read().result(), flat)
        (sequence,) = asyncio.run(cache.get_flat_field_batch("input_ids", [tokens // 3], tokens // 2))
        assert np.array_equal(sequence, flat[tokens // 3 : tokens // 3 + tokens // 2])
    print(f"{split.name}: {len(expected)} rows, {tokens} ids, {len(cache.ledger.finished_shards)} shards: equal")


def main(cache: Path, documents: Path) -> None:
    tokenizer = Tokenizer.from_file(str(cache / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    table = pl.concat([pl.read_parquet(path, columns=["id", "text"]) for path in sorted(documents.glob("*.parquet"))])
    texts = dict(table.iter_rows())
    for name in ("train", "validation"):
        split = cache / name
        eos_id = json.loads((split / "stats.json").read_text())["eos_id"]
        compare(split, expected_rows(split, texts, tokenizer, eos_id))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
