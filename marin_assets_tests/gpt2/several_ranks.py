"""A training run on several ranks: started by `torchrun` as `-m … DIRECTORY CONFIG SHARD`.

The corpus in DIRECTORY must exist; the run goes to DIRECTORY/out.
"""

import sys
from pathlib import Path

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.machine import Machine
from marin_assets.gpt2.trainer import train_on
from marin_assets_tests.artifacts.in_memory import writer
from marin_assets_tests.gpt2.corpora import uneven_corpus

if __name__ == "__main__":
    directory, config, shard = Path(sys.argv[1]), TrainingConfig.model_validate_json(sys.argv[2]), sys.argv[3]
    machine = Machine(device="cpu", threads=1, shard=shard == "True")
    train_on(uneven_corpus(directory / "corpus"), config, machine, writer(directory / "out"))
