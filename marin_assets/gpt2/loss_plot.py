"""The loss curve of a run, as a picture.

Belongs here: how losses are shown. Does not: how they are computed. It is drawn with Pillow: to import a plotting
library takes a third of the time of a quick-start run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from marin_assets.gpt2.evaluation import Evaluation
    from marin_assets.gpt2.metrics import StepMetrics

_WIDTH, _HEIGHT = 700, 400
_FINENESS = 2  # drawn so many times as large and scaled down, which makes lines smooth
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 34, 684, 350
_PAPER, _INK, _GRID = "#ffffff", "#222222", "#dddddd"
_TRAINING, _VALIDATION = "#2f6fb5", "#c2571a"  # both at least 4:1 against white and told apart in grey
_EACH_STEP = "#b7cde6"
_COLORS = 128
_MEANS = 40  # a mean over a fortieth of the run

Point = tuple[float, float]


@dataclass(frozen=True)
class _Curve:
    name: str
    color: str
    width: int
    points: Sequence[Point]
    marked: bool = False


def write_loss_plot(path: Path, steps: Sequence[StepMetrics], evaluations: Sequence[Evaluation]) -> None:
    """A PNG on white, which stays legible where the page around it is dark, and small enough to stand in a page.

    A single step's loss depends on its batch more than on the model, so a mean over steps is drawn over it.
    """
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (_WIDTH * _FINENESS, _HEIGHT * _FINENESS), _PAPER)
    _Plot(ImageDraw.Draw(image), _curves(steps, evaluations)).draw()
    image = image.resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS)
    image.quantize(_COLORS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)


def _curves(steps: Sequence[StepMetrics], evaluations: Sequence[Evaluation]) -> list[_Curve]:
    updates = [metrics.step - 1 for metrics in steps]  # a step's loss is from before its update
    losses = [metrics.loss for metrics in steps]
    window = max(1, len(losses) // _MEANS)
    mean = list(zip(updates, running_mean(losses, window), strict=True))
    training = [_Curve("training", _TRAINING, 2, mean)]
    if window > 1:
        each = _Curve("training, each step", _EACH_STEP, 1, list(zip(updates, losses, strict=True)))
        training = [each, _Curve(f"training, mean of {window} steps", _TRAINING, 2, mean)]
    validation = [(evaluation.step, evaluation.loss) for evaluation in evaluations]
    return [*training, _Curve("validation", _VALIDATION, 2, validation, marked=True)]


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those before it, `window` of them where there are as many."""
    sums = [0.0, *accumulate(values)]
    return [(sums[end] - sums[max(0, end - window)]) / min(end, window) for end in range(1, len(sums))]


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` of them, evenly apart: 1, 2 or 5 times a power of ten."""
    raw = max((high - low) / most, 1e-9)
    power = 10.0 ** math.floor(math.log10(raw))
    apart = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    return [number * apart for number in range(math.ceil(low / apart - 1e-6), math.floor(high / apart + 1e-6) + 1)]


class _Plot:
    def __init__(self, canvas: ImageDraw, curves: Sequence[_Curve]) -> None:
        self._canvas = canvas
        self._curves = [curve for curve in curves if curve.points]
        horizontal = [x for curve in self._curves for x, _ in curve.points] or [0.0]
        vertical = [y for curve in self._curves for _, y in curve.points] or [0.0]
        self._low_x, self._high_x = 0.0, max(*horizontal, 1.0)
        margin = 0.04 * max(max(vertical) - min(vertical), 1e-3)
        self._low_y, self._high_y = min(vertical) - margin, max(vertical) + margin

    def draw(self) -> None:
        self._axes()
        for curve in self._curves:
            self._curve(curve)
        self._legend()

    def _axes(self) -> None:
        losses = ticks(self._low_y, self._high_y, 8)
        decimals = max(0, -math.floor(math.log10(losses[1] - losses[0]) + 1e-6)) if len(losses) > 1 else 2
        for loss in losses:
            _, y = self._place((0, loss))
            self._line([(_LEFT, y), (_RIGHT, y)], _GRID, 1)
            self._text((_LEFT - 8, y), f"{loss:.{decimals}f}", "rm")
        for step in ticks(self._low_x, self._high_x, 8):
            x, _ = self._place((step, self._low_y))
            if step == int(step):
                self._line([(x, _BOTTOM), (x, _BOTTOM + 4)], _INK, 1)
                self._text((x, _BOTTOM + 8), f"{int(step):,}", "mt")
        self._line([(_LEFT, _TOP - 6), (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)], _INK, 1)
        self._text((_LEFT - 44, 10), "loss, nats per token", "lt")
        self._text(((_LEFT + _RIGHT) / 2, _HEIGHT - 8), "updates of the weights", "mb")

    def _curve(self, curve: _Curve) -> None:
        places = [self._place(point) for point in curve.points]
        if len(places) > 1:
            self._line(places, curve.color, curve.width)
        if curve.marked or len(places) == 1:
            for place in places:
                self._dot(place, curve.color)

    def _legend(self) -> None:
        x, y = _RIGHT - 200, _TOP
        for curve in self._curves:
            self._line([(x, y), (x + 24, y)], curve.color, curve.width)
            if curve.marked:
                self._dot((x + 12, y), curve.color)
            self._text((x + 32, y), curve.name, "lm")
            y += 20

    def _place(self, point: Point) -> Point:
        """Where a step and a loss stand in the picture."""
        x = _LEFT + (point[0] - self._low_x) / (self._high_x - self._low_x) * (_RIGHT - _LEFT)
        y = _BOTTOM - (point[1] - self._low_y) / (self._high_y - self._low_y) * (_BOTTOM - _TOP)
        return x, y

    def _line(self, places: Sequence[Point], color: str, width: int) -> None:
        fine = [(x * _FINENESS, y * _FINENESS) for x, y in places]
        self._canvas.line(fine, fill=color, width=width * _FINENESS, joint="curve" if width > 1 else None)

    def _dot(self, place: Point, color: str, radius: int = 3) -> None:
        x, y = (value * _FINENESS for value in place)
        self._canvas.circle((x, y), radius * _FINENESS, fill=color)

    def _text(self, place: Point, text: str, anchor: str) -> None:
        """`anchor`: which part of the text stands at the place, in Pillow's letters."""
        from PIL import ImageFont

        x, y = (value * _FINENESS for value in place)
        self._canvas.text((x, y), text, fill=_INK, anchor=anchor, font=ImageFont.load_default(13.0 * _FINENESS))
