"""Hugging Face's `Trainer` on `GPT2LMHeadModel`, with its defaults but for what the comparison fixes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from benchmarks.training_case import TrainingCase


class _Windows(Dataset):
    def __init__(self, tokens: Path, length: int) -> None:
        self.ids = np.memmap(tokens, dtype=np.uint16, mode="r")
        self.length = length

    def __len__(self) -> int:
        return len(self.ids) // self.length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        start = index * self.length
        ids = torch.from_numpy(self.ids[start : start + self.length].astype(np.int64))
        return {"input_ids": ids, "labels": ids}


class _Timer(TrainerCallback):
    def __init__(self, after_step: Callable[[float], None]) -> None:
        self.after_step = after_step

    def on_step_end(self, *_: object, **__: object) -> None:
        self.after_step(float("nan"))  # the loss is not handed to callbacks


def train(case: TrainingCase, tokens: Path, output: Path, after_step: Callable[[float], None]) -> None:
    """Train, and save the model at the end."""
    config = GPT2Config(
        vocab_size=case.vocabulary_size,
        n_positions=case.sequence_length,
        n_embd=case.hidden_size,
        n_layer=case.layers,
        n_head=case.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    arguments = TrainingArguments(
        output_dir=str(output),
        max_steps=case.steps,
        per_device_train_batch_size=case.batch_size,
        learning_rate=1e-3,
        weight_decay=0.1,
        lr_scheduler_type="cosine",
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_steps=10,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=_Windows(tokens, case.sequence_length),
        callbacks=[_Timer(after_step)],
    )
    trainer.train()
    trainer.save_model()
