"""One competitor in a process of its own: `python -m benchmarks.training_process COMPETITOR CASE TOKENS`.

Prints a line of JSON: for every step its loss, seconds and CPU seconds; and the peak memory of the process.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.training_case import TrainingCase

AfterStep = Callable[[float], None]


def main(competitor: str, case: TrainingCase, tokens: Path) -> None:
    steps: list[dict[str, float]] = []
    last = [time.perf_counter(), time.process_time()]

    def after_step(loss: float) -> None:
        now = [time.perf_counter(), time.process_time()]
        steps.append({"loss": loss, "seconds": now[0] - last[0], "cpu_seconds": now[1] - last[1]})
        last[:] = now

    with tempfile.TemporaryDirectory() as folder:
        COMPETITORS[competitor](case, tokens, Path(folder), after_step)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"steps": steps, "peak_memory_bytes": peak}))


def _ours(precision: str) -> Callable[[TrainingCase, Path, Path, AfterStep], None]:
    def train(case: TrainingCase, tokens: Path, output: Path, after_step: AfterStep) -> None:
        from benchmarks.our_trainer import train

        train(case, tokens, output, after_step, precision)

    return train


def _nanogpt(case: TrainingCase, tokens: Path, output: Path, after_step: AfterStep) -> None:
    import torch

    from benchmarks.nanogpt_loop import train

    torch.set_num_threads(case.threads)
    train(case, tokens, output, after_step)


def _hugging_face(case: TrainingCase, tokens: Path, output: Path, after_step: AfterStep) -> None:
    import torch

    from benchmarks.hugging_face_trainer import train

    torch.set_num_threads(case.threads)
    train(case, tokens, output, after_step)


COMPETITORS = {
    "ours, float32": _ours("float32"),
    "ours, bfloat16": _ours("bfloat16"),
    "nanoGPT's loop": _nanogpt,
    "HF Trainer": _hugging_face,
}


if __name__ == "__main__":
    main(sys.argv[1], TrainingCase(**json.loads(sys.argv[2])), Path(sys.argv[3]))
