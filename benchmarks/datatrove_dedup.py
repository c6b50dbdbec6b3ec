"""Exact deduplication of lines by datatrove: `python datatrove_dedup.py STEP WORKERS DOCUMENTS FOLDER`.

It runs in datatrove's own environment and imports nothing of this package. STEP is `find` (signatures of lines, then
which of them repeat) or `remove` (the texts without them, as Parquet). Lines are compared as they are: its text
normalization is off, and so are its filters of short documents, which would only cost it more. FOLDER keeps what the
steps hand on.
"""

import json
import os
import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import SentenceDedupFilter, SentenceDedupSignature, SentenceFindDedups
from datatrove.pipeline.dedup.sentence_dedup import SentDedupConfig
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter
from datatrove.utils.text import TextNormConfig

CONFIG = SentDedupConfig(
    n_sentences=1,
    split_sentences=False,
    only_dedup_in_index=False,
    min_doc_words=0,
    min_num_sentences=0,
    norm_config=TextNormConfig(
        lowercase=False,
        norm_whitespace=False,
        remove_punctuation=False,
        norm_unicode_diacritics=False,
        norm_numbers=False,
    ),
)


def main(step: str, workers: int, documents: Path, folder: Path) -> None:
    tasks = len(list(documents.glob("part-*.parquet")))
    signatures, repeats = str(folder / "signatures"), str(folder / "repeats")
    reader = ParquetReader(str(documents), glob_pattern="part-*.parquet")
    if step == "find":
        sign = [reader, SentenceDedupSignature(signatures, finder_workers=workers, config=CONFIG)]
        _run(sign, tasks, workers, folder / "logs" / "sign")
        find = [SentenceFindDedups(signatures, repeats, config=CONFIG, lines_to_buffer=1000)]
        _run(find, workers, workers, folder / "logs" / "find")
    else:
        writer = ParquetWriter(str(folder / "out"), compression="zstd", expand_metadata=True)
        _run([reader, SentenceDedupFilter(repeats, config=CONFIG), writer], tasks, workers, folder / "logs" / "remove")
        stats = json.loads((folder / "logs" / "remove" / "stats.json").read_text())
        removed = [one["stats"]["removed_sentences"]["total"] for one in stats if "removed_sentences" in one["stats"]]
        print(json.dumps({"removed": sum(removed)}))


def _run(pipeline: list[object], tasks: int, workers: int, logs: Path) -> None:
    LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=workers, logging_dir=str(logs)).run()


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
