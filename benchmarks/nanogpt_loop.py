"""A training loop in the manner of nanoGPT: its model, its batches, its optimizer, its defaults on a CPU.

Written from what nanoGPT does, to compare with it: exact GELU, no biases, an AdamW of two groups, batches at random
places of a memory-mapped file, all logits at once, float32.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.training_case import TrainingCase


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.layer_norm(hidden, self.weight.shape, self.weight, None, 1e-5)


class _Attention(nn.Module):
    def __init__(self, case: TrainingCase) -> None:
        super().__init__()
        self.heads = case.heads
        self.c_attn = nn.Linear(case.hidden_size, 3 * case.hidden_size, bias=False)
        self.c_proj = nn.Linear(case.hidden_size, case.hidden_size, bias=False)
        self.resid_dropout = nn.Dropout(0.0)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        query, key, value = self.c_attn(hidden).split(width, dim=2)
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (part.view(shape).transpose(1, 2) for part in (query, key, value))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        merged = attended.transpose(1, 2).contiguous().view(batch, length, width)
        return self.resid_dropout(self.c_proj(merged))


class _FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width, bias=False)
        self.dropout = nn.Dropout(0.0)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.gelu(self.c_fc(hidden))))


class _Block(nn.Module):
    def __init__(self, case: TrainingCase) -> None:
        super().__init__()
        self.ln_1 = _Norm(case.hidden_size)
        self.attn = _Attention(case)
        self.ln_2 = _Norm(case.hidden_size)
        self.mlp = _FeedForward(case.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attn(self.ln_1(hidden))
        return hidden + self.mlp(self.ln_2(hidden))


class _Gpt(nn.Module):
    def __init__(self, case: TrainingCase) -> None:
        super().__init__()
        self.wte = nn.Embedding(case.vocabulary_size, case.hidden_size)
        self.wpe = nn.Embedding(case.sequence_length, case.hidden_size)
        self.drop = nn.Dropout(0.0)
        self.h = nn.ModuleList(_Block(case) for _ in range(case.layers))
        self.ln_f = _Norm(case.hidden_size)
        self.lm_head = nn.Linear(case.hidden_size, case.vocabulary_size, bias=False)
        self.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * case.layers))

    @staticmethod
    def _init_weights(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, token_ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(token_ids.shape[1])
        hidden = self.drop(self.wte(token_ids) + self.wpe(places))
        for block in self.h:
            hidden = block(hidden)
        logits = self.lm_head(self.ln_f(hidden))
        loss = functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)
        return logits, loss


def train(case: TrainingCase, tokens: Path, output: Path, after_step: Callable[[float], None]) -> None:
    """Train, and save a checkpoint at the end."""
    torch.manual_seed(1337)
    model = _Gpt(case)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": [parameter for parameter in parameters if parameter.dim() >= 2], "weight_decay": 0.1},
            {"params": [parameter for parameter in parameters if parameter.dim() < 2], "weight_decay": 0.0},
        ],
        lr=1e-3,
        betas=(0.9, 0.95),
    )
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    token_ids, targets = _random_batch(tokens, case)
    for step in range(case.steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (0.1 + 0.45 * (1 + math.cos(math.pi * step / case.steps)))
        _, loss = model(token_ids, targets)
        token_ids, targets = _random_batch(tokens, case)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        after_step(loss.item())
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": case.steps}, output / "ckpt.pt"
    )


def _random_batch(tokens: Path, case: TrainingCase) -> tuple[Tensor, Tensor]:
    data = np.memmap(tokens, dtype=np.uint16, mode="r")
    length = case.sequence_length
    starts = torch.randint(len(data) - length, (case.batch_size,)).tolist()
    inputs = torch.stack([torch.from_numpy(data[start : start + length].astype(np.int64)) for start in starts])
    targets = torch.stack([torch.from_numpy(data[start + 1 : start + 1 + length].astype(np.int64)) for start in starts])
    return inputs, targets
