"""The loss curve of a run, as a picture.

Belongs here: how losses are shown. Does not: how they are computed.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from marin_assets.gpt2.evaluation import Evaluation
from marin_assets.gpt2.metrics import StepMetrics

_TRAINING_COLOR, _VALIDATION_COLOR = "#2f6fb5", "#c2571a"  # both at least 4:1 against white and told apart in grey
_STEP_COLOR = "#b7cde6"
_WINDOWS = 40


def write_loss_plot(path: Path, steps: Sequence[StepMetrics], evaluations: Sequence[Evaluation]) -> None:
    """A PNG on white, which stays legible where the page around it is dark, and small enough to stand in a page.

    A single step's loss depends on its batch more than on the model, so a mean over steps is drawn over it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # costs a third of a second
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4), dpi=100, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    updates = [metrics.step - 1 for metrics in steps]  # a step's loss is from before its update
    losses = [metrics.loss for metrics in steps]
    window = max(1, len(losses) // _WINDOWS)
    if window > 1:
        axes.plot(updates, losses, color=_STEP_COLOR, linewidth=0.7, label="training, each step")
    axes.plot(
        updates,
        _running_mean(losses, window),
        color=_TRAINING_COLOR,
        linewidth=1.6,
        label=f"training, mean of {window} steps" if window > 1 else "training",
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


def _running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those before it, `window` of them where there are as many."""
    sums = [0.0, *accumulate(values)]
    return [(sums[end] - sums[max(0, end - window)]) / min(end, window) for end in range(1, len(sums))]
