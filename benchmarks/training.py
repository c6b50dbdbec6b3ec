"""Our trainer against a nanoGPT-style loop and Hugging Face's `Trainer`: speed, memory, and a whole short process.

Belongs here: what is compared, in which order, and the tables. Every competitor runs in a process of its own, and they
take turns, so that a noisy moment of the machine falls on all of them. All train on the same tokens, the same sizes
and the same number of threads.
"""

import dataclasses
import importlib.metadata
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.results_page import machine
from benchmarks.training_case import TrainingCase, larger, quickstart
from benchmarks.training_profile import profile_tables
from marin_assets.stages.text_encoder import TextEncoder
from marin_assets.workers import available_cores
from marin_assets_tests.gpt2.real_text import chapters

ROOT = Path(__file__).resolve().parents[1]
OURS_FLOAT32, OURS_BFLOAT16 = "ours, float32", "ours, bfloat16"
NANOGPT, HUGGING_FACE = "nanoGPT's loop", "HF Trainer"
ROUNDS = 5
_WARM_UP = {True: 10, False: 1}  # steps that are not counted, at the quick-start size and beyond


@dataclass(frozen=True)
class Measured:
    """One process."""

    step_seconds: float
    """Median over the steps after the first ones."""
    step_cpu_seconds: float
    peak_memory_bytes: int
    process_seconds: float
    process_cpu_seconds: float


Rounds = dict[str, list[Measured]]
"""By competitor, one entry a round."""


def measure() -> str:
    """Run everything, about a quarter of an hour on two cores. Returns the section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = _write_tokens(Path(folder) / "tokens.bin")
        return "\n\n".join(_parts(tokens))


def _parts(tokens: Path) -> Iterator[str]:
    cores = available_cores()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "accelerate")
    )
    yield "## Training"
    yield f"{machine()}; {versions}. `python -m benchmarks training`: {_HOW}"

    small = quickstart(steps=2, threads=1)
    processes = _take_turns((OURS_FLOAT32, NANOGPT, HUGGING_FACE), small, tokens)
    yield f"### A whole process of two steps, {small.name}, one thread\n\n{_process_table(processes)}"

    for threads in sorted({1, cores}):
        case = quickstart(steps=110, threads=threads)
        rounds = _take_turns((OURS_FLOAT32, NANOGPT, HUGGING_FACE), case, tokens)
        yield _case(case, rounds, targets=((OURS_FLOAT32, NANOGPT, 1.3), (OURS_FLOAT32, HUGGING_FACE, 1.8)))

    for vocabulary_size in (5_000, 50_257):
        case = larger(vocabulary_size, steps=5, threads=cores)
        rounds = _take_turns((OURS_FLOAT32, OURS_BFLOAT16, NANOGPT, HUGGING_FACE), case, tokens)
        yield _case(
            case,
            rounds,
            targets=(
                (OURS_FLOAT32, NANOGPT, 1.05),
                (OURS_FLOAT32, HUGGING_FACE, 1.15),
                (OURS_BFLOAT16, NANOGPT, 2.4),
                (OURS_BFLOAT16, HUGGING_FACE, 2.6),
            ),
        )
    yield "### What bounds us\n\n" + profile_tables(
        (quickstart(steps=40, threads=1), larger(5_000, steps=3, threads=cores)), tokens
    )


_HOW = (
    "real English text in the 5,000 tokens of the quick start's tokenizer; every competitor in a process of its own, "
    f"in turns, {ROUNDS} rounds; a round's step time is the median of its steps after the first ones; the tables give "
    "medians over rounds, ratios are medians of each round's ratio. Ours runs as the asset does, with documents told "
    "apart, metrics, evaluation, checkpoint, export, samples and plot; the others save their weights. Times in CPU "
    "seconds are less disturbed by what else the machine does."
)


def _write_tokens(path: Path) -> Path:
    encoder = TextEncoder.load(ROOT / "fixtures" / "gpt2_tokenizer.json")
    documents = encoder.encode_batch(chapters()).rows()
    ids = np.concatenate([np.append(document, encoder.vocabulary.eos_id) for document in documents])
    ids.astype(np.uint16).tofile(path)
    return path


def _take_turns(competitors: tuple[str, ...], case: TrainingCase, tokens: Path) -> Rounds:
    rounds: Rounds = {competitor: [] for competitor in competitors}
    for number in range(ROUNDS):
        for competitor in competitors:
            print(f"round {number + 1} of {ROUNDS}: {case.name}, {competitor}", file=sys.stderr, flush=True)
            rounds[competitor].append(_run(competitor, case, tokens))
    return rounds


def _run(competitor: str, case: TrainingCase, tokens: Path) -> Measured:
    command = [sys.executable, "-m", "benchmarks.training_process", competitor]
    started, cpu_before = time.perf_counter(), _children_cpu_seconds()
    done = subprocess.run(
        [*command, json.dumps(dataclasses.asdict(case)), str(tokens)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, cpu_seconds = time.perf_counter() - started, _children_cpu_seconds() - cpu_before
    if done.returncode:
        sys.exit(f"{competitor} failed on the {case.name}:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    counted = answer["steps"][_WARM_UP[case.hidden_size < 100] if case.steps > 2 else 1 :]
    return Measured(
        step_seconds=median(step["seconds"] for step in counted),
        step_cpu_seconds=median(step["cpu_seconds"] for step in counted),
        peak_memory_bytes=answer["peak_memory_bytes"],
        process_seconds=seconds,
        process_cpu_seconds=cpu_seconds,
    )


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _process_table(rounds: Rounds) -> str:
    lines = ["| | seconds | CPU seconds | ours / theirs, wall | CPU | to reach |", "|---|---|---|---|---|---|"]
    targets = {NANOGPT: "at most 0.65", HUGGING_FACE: "at most 0.33"}
    for competitor in rounds:
        row = [
            competitor,
            f"{_median(rounds, competitor, 'process_seconds'):.2f}",
            f"{_median(rounds, competitor, 'process_cpu_seconds'):.2f}",
        ]
        if competitor in targets:
            row += [
                f"{_ratio(rounds, OURS_FLOAT32, competitor, 'process_seconds'):.2f}",
                f"{_ratio(rounds, OURS_FLOAT32, competitor, 'process_cpu_seconds'):.2f}",
                targets[competitor],
            ]
        lines.append(f"| {' | '.join([*row, *[''] * (6 - len(row))])} |")
    return "\n".join(lines)


def _case(case: TrainingCase, rounds: Rounds, targets: tuple[tuple[str, str, float], ...]) -> str:
    threads = "one thread" if case.threads == 1 else f"{case.threads} threads"
    speeds = ["| | tokens/s | ms a step | CPU ms a step | peak memory, MB |", "|---|---|---|---|---|"]
    for competitor in rounds:
        seconds = _median(rounds, competitor, "step_seconds")
        speeds.append(
            f"| {competitor} | {case.tokens_per_step / seconds:,.0f} | {seconds * 1e3:,.1f} "
            f"| {_median(rounds, competitor, 'step_cpu_seconds') * 1e3:,.1f} "
            f"| {_median(rounds, competitor, 'peak_memory_bytes') / 1e6:,.0f} |"
        )
    ratios = ["| times as fast | wall | CPU | to reach | memory, ours / theirs |", "|---|---|---|---|---|"]
    for ours, theirs, target in targets:
        ratios.append(
            f"| {ours} against {theirs} | {_ratio(rounds, theirs, ours, 'step_seconds'):.2f} "
            f"| {_ratio(rounds, theirs, ours, 'step_cpu_seconds'):.2f} | {target} "
            f"| {_ratio(rounds, ours, theirs, 'peak_memory_bytes'):.2f} |"
        )
    return "\n".join([f"### {case.name[0].upper()}{case.name[1:]}, {threads}", "", *speeds, "", *ratios])


def _median(rounds: Rounds, competitor: str, field: str) -> float:
    return median(getattr(measured, field) for measured in rounds[competitor])


def _ratio(rounds: Rounds, above: str, below: str, field: str) -> float:
    pairs = zip(rounds[above], rounds[below], strict=True)
    return median(getattr(one, field) / getattr(other, field) for one, other in pairs)
