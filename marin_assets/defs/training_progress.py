"""What the UI shows of a model while it trains.

Belongs here: observations of the asset. Does not: lines of the log, which the trainer writes.
"""

from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from marin_assets.gpt2.config import TrainingConfig
    from marin_assets.gpt2.metrics import StepMetrics
    from marin_assets.gpt2.run import OnMetrics


def observations(context: dg.AssetExecutionContext, config: "TrainingConfig") -> "OnMetrics":
    """Observe the asset after each step that is logged. The last one is left to the materialization."""

    def observe(metrics: "StepMetrics") -> None:
        if metrics.step % config.log_every == 0 and metrics.step < config.steps:
            shown = {
                "step": metrics.step,
                "loss": metrics.loss,
                "learning_rate": metrics.learning_rate,
                "grad_norm": metrics.grad_norm,
                "tokens": metrics.tokens,
                "tokens_per_second": round(metrics.tokens_per_second, 1),
            }
            context.log_event(dg.AssetObservation(context.asset_key, metadata=shown))

    return observe
