"""What a finished run leaves for people: the loss curve, a summary.

Belongs here: how results are shown. Does not: how they are computed.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from marin_assets.gpt2.evaluation import Evaluation
from marin_assets.gpt2.metrics import StepMetrics

_TRAINING_COLOR, _VALIDATION_COLOR = "#2f6fb5", "#c2571a"  # both at least 4:1 against white and told apart in grey


def write_loss_plot(path: Path, steps: Sequence[StepMetrics], evaluations: Sequence[Evaluation]) -> None:
    """A PNG on white, which stays legible where the page around it is dark."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # costs a third of a second
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(
        [metrics.step - 1 for metrics in steps],  # a step's loss is from before its update
        [metrics.loss for metrics in steps],
        color=_TRAINING_COLOR,
        linewidth=1.2,
        label="training",
    )
    axes.plot(
        [evaluation.step for evaluation in evaluations],
        [evaluation.loss for evaluation in evaluations],
        color=_VALIDATION_COLOR,
        marker="o",
        markersize=4,
        linewidth=1.6,
        label="validation",
    )
    axes.set_xlabel("updates of the weights")
    axes.set_ylabel("loss (nats per token)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)


def write_summary(path: Path, summary: dict[str, JsonValue]) -> None:
    path.write_text(json.dumps(summary, indent=2) + "\n")
