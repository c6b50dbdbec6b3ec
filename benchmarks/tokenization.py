"""Our token stage against plain `tokenizers` and datatrove: processor time, time on the clock, memory.

Belongs here: what is compared, in which order, and the table. Every competitor runs in a process of its own, start of
the interpreter included, and they take turns, so that a noisy moment of the machine falls on all of them. The slow ones
are given an eighth of the files, and what is compared is time for a megabyte.

Environment:
    MARIN_TOKENIZER: the tokenizer; GPT-2's own has 50,257 tokens, the quick start's about 5,000.
    BENCHMARK_MEGABYTES: size of the corpus, 1000 unless set.
    BENCHMARK_DATATROVE_PYTHON: the Python of an environment with `datatrove[io,processing]`; its requirements exclude
        ours;
        without it, datatrove is left out.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.results_page import machine
from benchmarks.seeded_corpus import text_bytes, write_corpus
from marin_assets import environment
from marin_assets.stages.tokenizer_file import tokenizer_file
from marin_assets.workers import available_cores

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("tokenization_process.py")
OURS_GIGATOKEN, OURS_HUGGING_FACE, PLAIN, DATATROVE = "ours-gigatoken", "ours-huggingface", "tokenizers", "datatrove"
NAMES = {
    OURS_GIGATOKEN: "ours, gigatoken",
    OURS_HUGGING_FACE: "ours, huggingface",
    PLAIN: "plain `tokenizers`",
    DATATROVE: "datatrove",
}
ROUNDS = {OURS_GIGATOKEN: 3, OURS_HUGGING_FACE: 2, PLAIN: 2, DATATROVE: 1}
PARTS = 32
SAMPLE = 4


@dataclass(frozen=True)
class Measured:
    """One process and its children."""

    megabytes: float
    """Of text."""
    cpu_seconds: float
    wall_seconds: float
    peak_memory_bytes: int
    """Of the largest of the processes."""

    @property
    def cpu_seconds_a_gigabyte(self) -> float:
        return 1000 * self.cpu_seconds / self.megabytes

    @property
    def wall_seconds_a_gigabyte(self) -> float:
        return 1000 * self.wall_seconds / self.megabytes


Results = dict[tuple[str, int], Measured]
"""By competitor and number of cores, medians."""


def measure() -> str:
    """Run everything, some ten minutes on two cores. Returns the section of the page."""
    megabytes = int(os.environ.get("BENCHMARK_MEGABYTES") or 1000)
    tokenizer = tokenizer_file(environment.TOKENIZER.value).path.resolve()
    with tempfile.TemporaryDirectory() as folder:
        whole, sample = Path(folder) / "corpus", Path(folder) / "sample"
        write_corpus(whole, tokenizer, megabytes * 10**6, PARTS)
        sample.mkdir()
        for path in sorted(whole.iterdir())[:SAMPLE]:
            (sample / path.name).hardlink_to(path)
        return "\n\n".join(_section(_results(whole, sample, tokenizer), tokenizer))


def _results(whole: Path, sample: Path, tokenizer: Path) -> Results:
    cores = available_cores()
    competitors = [name for name in NAMES if name != DATATROVE or os.environ.get("BENCHMARK_DATATROVE_PYTHON")]
    # datatrove is measured for its processor time, which more processes do not lower.
    cases = [(name, count) for name in competitors for count in sorted({1, cores}) if name != DATATROVE or count == 1]
    rounds: dict[tuple[str, int], list[Measured]] = {case: [] for case in cases}
    for turn in range(max(ROUNDS.values())):
        for name, count in cases:
            if turn < ROUNDS[name]:
                corpus = whole if name == OURS_GIGATOKEN else sample
                rounds[name, count].append(_run(name, corpus, tokenizer, count))
    return {
        case: Measured(
            measured[0].megabytes,
            median(one.cpu_seconds for one in measured),
            median(one.wall_seconds for one in measured),
            max(one.peak_memory_bytes for one in measured),
        )
        for case, measured in rounds.items()
    }


def _run(name: str, corpus: Path, tokenizer: Path, cores: int) -> Measured:
    python = os.environ["BENCHMARK_DATATROVE_PYTHON"] if name == DATATROVE else sys.executable
    output = corpus.parent / "output"
    arguments = [name, str(corpus), str(tokenizer), str(output), str(cores)]
    caps = {"POLARS_MAX_THREADS": "1"} if cores == 1 else {}
    started = time.perf_counter()
    process = subprocess.Popen(
        [python, str(SCRIPT), *arguments],
        cwd=ROOT,
        env={**os.environ, **caps, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if name == DATATROVE else None,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"{name} ended with exit code {process.returncode}")
    for path in (output, output.with_name("output-logs")):
        shutil.rmtree(path, ignore_errors=True)
    print(f"{name} on {cores}: {usage.ru_utime + usage.ru_stime:.1f} CPU s, {wall:.1f} s", file=sys.stderr)
    return Measured(text_bytes(corpus) / 1e6, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024)


def _section(results: Results, tokenizer: Path) -> Iterator[str]:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tokenizers", "gigatoken", "polars"))
    yield "## Tokenization"
    yield (
        f"{machine()}; {versions}. `python -m benchmarks tokenization`: seeded text in {PARTS} Parquet files, of which "
        f"all but gigatoken are given the first {SAMPLE}; `{tokenizer.name}`. Whole processes, the start of the "
        f"interpreter included; medians of {ROUNDS[OURS_GIGATOKEN]} turns for gigatoken, {ROUNDS[PLAIN]} for "
        f"`tokenizers`, {ROUNDS[DATATROVE]} for datatrove. Memory is that of the largest process. Ours also hashes "
        "ids, checks ranges, and compresses and digests the cache."
    )
    yield _table(results)
    yield "\n".join(_targets(results))


def _table(results: Results) -> str:
    lines = [
        "| | cores | text, MB | CPU s | CPU s a GB | wall s | wall s a GB | peak memory, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {NAMES[name]} | {cores} | {one.megabytes:,.0f} | {one.cpu_seconds:.1f} | {one.cpu_seconds_a_gigabyte:.1f} "
        f"| {one.wall_seconds:.1f} | {one.wall_seconds_a_gigabyte:.1f} | {one.peak_memory_bytes / 1e6:,.0f} |"
        for (name, cores), one in results.items()
    ]
    return "\n".join(lines)


def _targets(results: Results) -> Iterator[str]:
    gigatoken, hugging_face = results[OURS_GIGATOKEN, 1], results[OURS_HUGGING_FACE, 1]
    if (DATATROVE, 1) in results:
        ratio = results[DATATROVE, 1].cpu_seconds_a_gigabyte / gigatoken.cpu_seconds_a_gigabyte
        yield f"- datatrove's CPU seconds to ours with gigatoken: {ratio:.1f}; at least 30: {_verdict(ratio >= 30)}."
    ratio = hugging_face.cpu_seconds_a_gigabyte / results[PLAIN, 1].cpu_seconds_a_gigabyte
    yield f"- our CPU seconds with huggingface to plain `tokenizers`: {ratio:.2f}; at most 1: {_verdict(ratio <= 1)}."
    cores = available_cores()
    for name in (OURS_GIGATOKEN, OURS_HUGGING_FACE) if cores > 1 else ():
        ratio = results[name, cores].wall_seconds / results[name, 1].wall_seconds
        verdict = f"; at most 0.6: {_verdict(ratio <= 0.6)}" if cores == 2 else ""
        yield f"- wall on {cores} cores to wall on one, {NAMES[name]}: {ratio:.2f}{verdict}."


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"
