"""A training run as it is seen in the UI while it goes on.

Belongs here: the observations that the asset's page draws as curves. Lines of the log come from the trainer itself.
"""

from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Callable

    from marin_assets.gpt2.metrics import StepMetrics


def observe_training(context: dg.AssetExecutionContext, *, steps: int, every: int) -> "Callable[[StepMetrics], None]":
    """A function that observes the asset every so many steps, and at the last.

    An observation has no data version, so the asset is as fresh or stale as before it.
    """

    def observe(metrics: "StepMetrics") -> None:
        if metrics.step != steps and metrics.step % every:
            return
        numbers: dict[str, float] = {
            "step": metrics.step,
            "training_loss": metrics.loss,
            "learning_rate": metrics.learning_rate,
            "grad_norm": metrics.grad_norm,
            "tokens_per_second": metrics.tokens_per_second,
        }
        if metrics.peak_flops_share is not None:
            numbers["peak_flops_share"] = metrics.peak_flops_share
        context.log_event(dg.AssetObservation(context.asset_key, metadata=numbers))

    return observe
