"""Normalize, dedup and consolidate, stage by stage, and against datatrove.

Belongs here: what is compared, in which order, and the tables. Every measurement is a process of its own; they take
turns, round after round, so that a noisy moment of the machine falls on all of them; medians are shown.

datatrove needs libraries in versions that this package cannot have, so it has an environment of its own:

    python3.11 -m venv /tmp/datatrove
    /tmp/datatrove/bin/pip install 'datatrove[io,processing]' spacy
    python -m benchmarks data --datatrove-python /tmp/datatrove/bin/python

Variables of the environment, which options of `python -m benchmarks` set:
    BENCHMARK_MEGABYTES: size of the corpus, 1000 unless set.
    BENCHMARK_DATATROVE_PYTHON: datatrove is left out without it.
"""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.corpus import corpus
from benchmarks.data_stage_process import read, write_manifest
from benchmarks.measured_process import Cost, measured
from benchmarks.results_page import machine
from marin_assets.workers import available_cores

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("normalize", "dedup", "consolidate")


ROUNDS = 3
MEMORY_BUDGET = 2 << 30


def measure() -> str:
    """Run everything; several minutes a round on two cores. Returns the section of the page."""
    pages = corpus(int(os.environ.get("BENCHMARK_MEGABYTES") or 1000) * 1_000_000)
    write_manifest(Path(pages.location), pages)
    datatrove = os.environ.get("BENCHMARK_DATATROVE_PYTHON") or None
    rounds: list[dict[str, Cost]] = []
    with tempfile.TemporaryDirectory(prefix="marin-benchmark-") as temporary:
        for number in range(ROUNDS):
            print(f"data: round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            folder = Path(temporary) / f"{number}"
            folder.mkdir()
            rounds.append(_Round(Path(pages.location), folder, datatrove).run())
            if number == 0:
                facts = _facts(folder)
            shutil.rmtree(folder)
    return "\n\n".join(_section(facts, {name: _median([one[name] for one in rounds]) for name in rounds[0]}))


@dataclass(frozen=True)
class _Round:
    pages: Path
    folder: Path
    datatrove_python: str | None

    def run(self) -> dict[str, Cost]:
        costs = {}
        for cores in (1, available_cores()):
            made = self.folder / f"{cores}"
            documents = made / "normalize"
            costs[f"normalize {cores}"] = self._ours("normalize", cores, documents, self.pages)
            for unit in ("paragraph", "line"):
                spans, left = made / f"dedup-{unit}", made / f"consolidate-{unit}"
                costs[f"dedup {unit} {cores}"] = self._ours("dedup", cores, spans, documents, unit=unit)
                costs[f"consolidate {unit} {cores}"] = self._ours("consolidate", cores, left, documents, spans)
                shutil.rmtree(left)
        if self.datatrove_python is not None:
            for step in ("find", "remove"):
                costs[f"datatrove {step}"] = self._datatrove(step, self.folder / "1" / "normalize")
                (self.folder / "datatrove.json").write_text(costs[f"datatrove {step}"].output or "{}")
        return costs

    def _ours(self, stage: str, cores: int, output: Path, *inputs: Path, **settings: str) -> Cost:
        config = {"workers": cores, "memory_budget": MEMORY_BUDGET, **settings}
        if stage == "consolidate":
            config.pop("unit", None)
        command = [sys.executable, "-m", "benchmarks.data_stage_process", stage, json.dumps(config), str(output)]
        path = {"PYTHONPATH": str(ROOT)}
        return measured([*command, *map(str, inputs)], self.folder / "log", cores=cores, more=path)

    def _datatrove(self, step: str, documents: Path) -> Cost:
        script = Path(__file__).with_name("datatrove_dedup.py")
        command = [self.datatrove_python or "", str(script), step, "1", str(documents)]
        return measured([*command, str(self.folder / "datatrove")], self.folder / "log", cores=1)


@dataclass(frozen=True)
class _Facts:
    """What the stages counted."""

    text_bytes: int
    documents: int
    paragraphs: int
    repeated_bytes: int
    lines_removed: int
    lines_removed_by_datatrove: int | None


def _facts(folder: Path) -> _Facts:
    normalized, paragraphs, lines = (
        read(folder / "1" / name).stats for name in ("normalize", "dedup-paragraph", "dedup-line")
    )
    datatrove = folder / "datatrove.json"
    removed = json.loads(datatrove.read_text())["removed"] if datatrove.exists() else None
    return _Facts(
        text_bytes=_integer(normalized["text_bytes_out"]),
        documents=_integer(normalized["rows_out"]),
        paragraphs=_integer(paragraphs["paragraphs"]),
        repeated_bytes=_integer(paragraphs["duplicate_bytes"]),
        lines_removed=_integer(lines["paragraphs_duplicate"]),
        lines_removed_by_datatrove=removed,
    )


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        median(one.cpu_seconds for one in costs),
        median(one.wall_seconds for one in costs),
        int(median(one.peak_memory_bytes for one in costs)),
        "",
    )


def _section(facts: _Facts, costs: dict[str, Cost]) -> list[str]:
    cores = available_cores()
    gigabytes = facts.text_bytes / 1e9
    return [
        "## Normalize, dedup, consolidate",
        f"{machine()}. `python -m benchmarks data`: {facts.text_bytes:,} bytes of text in {facts.documents:,} "
        f"documents and {facts.paragraphs:,} paragraphs, of which "
        f"{facts.repeated_bytes / facts.text_bytes:.0%} repeat; "
        f"`memory_budget` {MEMORY_BUDGET >> 20:,} MiB; medians of {ROUNDS} rounds. Every figure is of "
        "a whole process with its imports and its worker processes. On one core the process is pinned to it.",
        "\n".join(_stage_table(costs, cores, gigabytes)),
        *_datatrove(facts, costs, gigabytes),
    ]


def _stage_table(costs: dict[str, Cost], cores: int, gigabytes: float) -> list[str]:
    lines = [
        f"| stage | CPU s | CPU s/GB | wall s, 1 core | wall s, {cores} cores | ratio | peak MB, 1 | {cores} |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    names = {"normalize": "normalize", "dedup": "dedup paragraph", "consolidate": "consolidate paragraph"}
    for stage in STAGES:
        one, all_cores = costs[f"{names[stage]} 1"], costs[f"{names[stage]} {cores}"]
        lines.append(
            f"| {stage} | {one.cpu_seconds:.1f} | {one.cpu_seconds / gigabytes:.1f} | {one.wall_seconds:.1f} "
            f"| {all_cores.wall_seconds:.1f} | {all_cores.wall_seconds / one.wall_seconds:.2f} "
            f"| {one.peak_memory_bytes / 1e6:,.0f} | {all_cores.peak_memory_bytes / 1e6:,.0f} |"
        )
    return lines


def _datatrove(facts: _Facts, costs: dict[str, Cost], gigabytes: float) -> list[str]:
    if "datatrove find" not in costs:
        return ["datatrove was not measured: no `--datatrove-python`."]
    find, remove = (costs[f"datatrove {step}"].cpu_seconds for step in ("find", "remove"))
    lines = [
        "| CPU s/GB, one core | finding spans | with consolidation |",
        "|---|--:|--:|",
        f"| datatrove, lines | {find / gigabytes:.1f} | {(find + remove) / gigabytes:.1f} |",
    ]
    for unit in ("line", "paragraph"):
        dedup, cut = (costs[f"{stage} {unit} 1"].cpu_seconds for stage in ("dedup", "consolidate"))
        lines.append(
            f"| ours, `unit: {unit}` | {dedup / gigabytes:.1f} ({find / dedup:.1f} times less) "
            f"| {(dedup + cut) / gigabytes:.1f} ({(find + remove) / (dedup + cut):.1f} times less) |"
        )
    return [
        "\n".join(lines),
        "To reach: span finding at least 10 times less, with consolidation at least 5 times less. Lines removed: "
        f"{facts.lines_removed:,} by ours, {facts.lines_removed_by_datatrove or 0:,} by datatrove.",
    ]
