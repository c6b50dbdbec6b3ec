"""The learning rate of each step: a pure function, so a resumed run needs nothing to go on with."""

import math

from marin_assets.gpt2.config import TrainingConfig


def learning_rate(step: int, config: TrainingConfig) -> float:
    """Linear warm-up to the peak, then a cosine that reaches its floor at the last step (Loshchilov & Hutter 2017).

    Args:
        step: counted from 0, below `config.steps`.
    """
    peak, warmup = config.peak_learning_rate, config.warmup
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = (step - warmup) / max(1, config.steps - 1 - warmup)
    share = 0.5 * (1 + math.cos(math.pi * progress))
    ratio = config.min_learning_rate_ratio
    return peak * (ratio + (1 - ratio) * share)
