"""The three data stages in a process of their own, with small parts: `python -m … FOLDER MEGABYTES BUDGET`.

Prints, as JSON, the digest of every file of each stage, and the peak of the process's anonymous memory: files that are
mapped do not count, since the kernel takes their pages back when it needs them. Linux only.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from marin_assets.artifacts.artifact import Artifact
from marin_assets.stages import consolidate, exact_paragraph_dedup, normalize
from marin_assets.stages.tables import part_name
from marin_assets_tests.artifacts import in_memory

PART_BYTES = 8 << 20


def main(folder: Path, megabytes: int, budget: int) -> None:
    vars(normalize)["PART_BYTES"] = PART_BYTES  # the other stages keep the parts that they are given
    pages = markdown(folder / "pages", megabytes)

    out = in_memory.writer(folder / "normalized")
    normalize.normalize(pages, normalize.NormalizeConfig(workers=1, memory_budget=budget), out)
    documents = in_memory.published(out)

    out = in_memory.writer(folder / "spans")
    config = exact_paragraph_dedup.ExactParagraphDedupConfig(workers=1, memory_budget=budget)
    exact_paragraph_dedup.exact_paragraph_dedup(documents, config, out)
    spans = in_memory.published(out)

    out = in_memory.writer(folder / "consolidated")
    cut = consolidate.ConsolidateConfig(workers=1, memory_budget=budget)
    consolidate.consolidate(documents, {"duplicate_paragraphs": spans}, cut, out)

    made = (documents, spans, in_memory.published(out))
    digests = [[entry.name, entry.digest] for artifact in made for entry in artifact.files()]
    print(json.dumps({"digests": digests, "peak": max(_anonymous)}))


_anonymous: list[int] = []


def _sample() -> None:
    while True:
        status = Path("/proc/self/status").read_text()
        _anonymous.append(1024 * int(status.split("RssAnon:")[1].split()[0]))
        time.sleep(0.005)


def markdown(folder: Path, megabytes: int) -> Artifact:
    out = in_memory.writer(folder)
    count = -(-megabytes // 8)
    for index in range(count):
        choose = random.Random(index)
        texts = list(_texts(choose, megabytes * 1_000_000 // count))
        names = [f"{index}-{number}" for number in range(len(texts))]
        columns: dict[str, object] = {"source_id": names, "text": texts, "status": ["ok"] * len(texts)}
        frame = pl.DataFrame(columns).with_columns(
            pl.lit(None, dtype=pl.String).alias(name) for name in ("url", "source", "title", "metadata")
        )
        frame.write_parquet(out.path(part_name(index, count)))
        out.add(part_name(index, count))
    return in_memory.published(out)


def _texts(choose: random.Random, size: int) -> Iterator[str]:
    while size > 0:
        fresh = [choose.randbytes(choose.randint(20, 100)).hex(" ", 4) for _ in range(25)]
        notices = [f"Notice {choose.randint(1, 1000)} stands on many pages." for _ in range(5)]
        text = "\n\n".join(fresh + notices)
        size -= len(text)
        yield text


if __name__ == "__main__":
    threading.Thread(target=_sample, daemon=True).start()
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
