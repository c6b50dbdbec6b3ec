"""A training run that is killed: `python -m … DIRECTORY STEP CONFIG` prints a line after that step, and waits there.

With STEP 0 it prints the line after the first step, and goes on.

Run in a process of its own by `test_resume`.
"""

import sys
import time
from pathlib import Path

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.metrics import StepMetrics
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import corpus

MACHINE = Machine(device="cpu", threads=1)


def main(directory: Path, wait_after: int, config: TrainingConfig) -> None:
    def wait(metrics: StepMetrics) -> None:
        if metrics.step == max(1, wait_after):
            print("ready", flush=True)
            time.sleep(60 if wait_after else 0)

    train_on(corpus(directory / "corpus"), config, MACHINE, writer(directory / "out"), wait)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), TrainingConfig.model_validate_json(sys.argv[3]))
