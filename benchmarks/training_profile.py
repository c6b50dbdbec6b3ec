"""Where the time of our step goes: shares of the processor's time by operation, from PyTorch's profiler.

Belongs here: a profile of the run that `training` measures. It is taken apart from the measurements, since a profiler
slows down what it looks at.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.training_case import TrainingCase

ROOT = Path(__file__).resolve().parents[1]
_SHOWN = 8


def profile_tables(cases: tuple[TrainingCase, ...], tokens: Path) -> str:
    return "\n\n".join(_table(case, tokens) for case in cases)


def _table(case: TrainingCase, tokens: Path) -> str:
    command = [sys.executable, "-m", "benchmarks.training_profile", json.dumps(dataclasses.asdict(case)), str(tokens)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shares: list[tuple[str, float, int]] = json.loads(done.stdout.splitlines()[-1])
    lines = [
        f"{case.name[0].upper()}{case.name[1:]}, float32, steps alone:",
        "",
        "| operation | share | calls a step |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {share:.1%} | {calls} |" for name, share, calls in shares]
    return "\n".join(lines)


def main(case: TrainingCase, tokens: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    from benchmarks.our_trainer import train

    profiler = profile(activities=[ProfilerActivity.CPU])
    steps = 0

    def after_step(_: float) -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            profiler.start()
        elif steps == case.steps:
            profiler.stop()

    with tempfile.TemporaryDirectory() as folder:
        train(case, tokens, Path(folder), after_step, "float32")
    events = profiler.key_averages()
    whole = sum(event.self_cpu_time_total for event in events)
    largest = sorted(events, key=lambda event: -event.self_cpu_time_total)[:_SHOWN]
    print(json.dumps([[event.key, event.self_cpu_time_total / whole, event.count // (steps - 1)] for event in largest]))


if __name__ == "__main__":
    main(TrainingCase(**json.loads(sys.argv[1])), Path(sys.argv[2]))
