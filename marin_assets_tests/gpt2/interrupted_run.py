"""A training run that waits to be killed: `python -m … DIRECTORY STEP` prints a line after that step, and stops there.

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
        if metrics.step == wait_after:
            print("ready", flush=True)
            time.sleep(60)

    train_on(corpus(directory / "corpus"), config, MACHINE, writer(directory / "out"), wait)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), TrainingConfig.model_validate_json(sys.argv[3]))
