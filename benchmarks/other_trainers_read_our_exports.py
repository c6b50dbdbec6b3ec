"""Reads exported tokens with the readers of Megatron-LM and datatrove, and compares them with the `bin` export.

Both need libraries in versions that this package does not use, so each has an environment of its own:

    python3.11 -m venv /tmp/megatron && /tmp/megatron/bin/pip install polars torch numpy megatron-core==0.16.1
    python3.11 -m venv /tmp/datatrove && /tmp/datatrove/bin/pip install polars torch 'datatrove[io,processing]==0.10.1'

Export the latest `token_cache` three times, and find its folder with `marin-assets summary`:

    for format in bin megatron datatrove; do
        marin-assets export tokens --format $format --output /tmp/export/$format
    done
    /tmp/megatron/bin/python benchmarks/other_trainers_read_our_exports.py megatron /tmp/export TOKEN_CACHE
    /tmp/datatrove/bin/python benchmarks/other_trainers_read_our_exports.py datatrove /tmp/export TOKEN_CACHE

It imports nothing of this package. It exits with an error at the first difference.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

SPLITS = {"train": "train.bin", "validation": "val.bin"}


def documents(export: Path, token_cache: Path, split: str) -> list[np.ndarray]:
    """The ids of each document: nanoGPT's view of the `bin` export, cut by the lengths in the artifact."""
    parts = sorted((token_cache / split / "document_ids").glob("*.parquet"))
    lengths = pl.concat([pl.read_parquet(path) for path in parts])["tokens"].cast(pl.Int64).to_numpy()
    flat = np.memmap(export / "bin" / SPLITS[split], dtype=np.uint16, mode="r")
    assert len(flat) == lengths.sum(), f"{split}: {len(flat)} ids in the file, {lengths.sum()} in the artifact"
    return np.split(flat, np.cumsum(lengths)[:-1])


def check_megatron(export: Path, split: str, expected: list[np.ndarray]) -> None:
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    dataset = IndexedDataset(str(export / "megatron" / split), mmap=True)
    assert len(dataset) == len(expected)
    assert dataset.document_indices.tolist() == list(range(len(expected) + 1))
    for number, ids in enumerate(expected):
        assert np.array_equal(dataset[number], ids), f"{split}: document {number}"


def check_datatrove(export: Path, split: str, expected: list[np.ndarray]) -> None:
    from datatrove.utils.dataset import DatatroveFolderDataset

    folder = export / "datatrove" / split
    token_bytes = int((folder / "00000_tokens.ds.metadata").read_text().split("\n")[0].rpartition("|")[2])
    flat = np.concatenate(expected)
    sequence = 128
    settings = {"token_size": token_bytes, "return_positions": True}
    by_index = DatatroveFolderDataset(str(folder), sequence, **settings)
    by_eos = DatatroveFolderDataset(str(folder), sequence, positions_from_eos_token_id=int(flat[-1]), **settings)
    assert len(by_index) == len(flat) // (sequence + 1)
    for number in range(len(by_index)):
        start = number * (sequence + 1)
        item = by_index[number]
        assert item["input_ids"].tolist() == flat[start : start + sequence + 1].tolist(), f"{split}: sequence {number}"
        # Where documents begin is told by the index in one case, and by the end of sequence in the other.
        assert item["positions"].tolist() == by_eos[number]["positions"].tolist(), f"{split}: positions of {number}"


def main(reader: str, export: Path, token_cache: Path) -> None:
    check = {"megatron": check_megatron, "datatrove": check_datatrove}[reader]
    for split in SPLITS:
        expected = documents(export, token_cache, split)
        check(export, split, expected)
        print(f"{reader} reads {split}: {len(expected)} documents, {sum(map(len, expected))} tokens")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
