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
    """Observe the asset every `observe_every` steps, and at the last one.

    An observation has no data version, so the asset is as fresh or stale as before it.
    """

    def observe(metrics: "StepMetrics") -> None:
        if config.observes(metrics.step):
            shown: dict[str, float] = {
                "step": metrics.step,
                "training_loss": metrics.loss,
                "learning_rate": metrics.learning_rate,
                "grad_norm": metrics.grad_norm,
                "tokens": metrics.tokens,
                "tokens_per_second": round(metrics.tokens_per_second, 1),
            }
            if metrics.peak_flops_share is not None:
                shown["peak_flops_share"] = metrics.peak_flops_share
            context.log_event(dg.AssetObservation(context.asset_key, metadata=shown))

    return observe
