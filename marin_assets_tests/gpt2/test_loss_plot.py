"""The loss curve: a small picture with every curve in it, for a run of any length."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from marin_assets.gpt2.evaluation import Evaluation
from marin_assets.gpt2.loss_plot import running_mean, ticks, write_loss_plot
from marin_assets.gpt2.metrics import StepMetrics


def steps(count: int) -> list[StepMetrics]:
    return [
        StepMetrics(step, 4 + 4 / step + 0.3 * (step % 3), 1e-3, 1.0, 512 * step, 1e4, None, 10**9)
        for step in range(1, count + 1)
    ]


def evaluations(*at: int) -> list[Evaluation]:
    return [Evaluation(step, 4.5 + 4 / (step + 1), None, 100) for step in at]


def nearest(image: Image.Image, color: tuple[int, int, int]) -> int:
    """How far from this colour the picture's nearest pixel is."""
    found = image.convert("RGB").getcolors(1 << 24) or []
    return min(
        sum(abs(a - b) for a, b in zip(color, seen, strict=True)) for _, seen in found if isinstance(seen, tuple)
    )


@pytest.mark.parametrize("count", [0, 1, 2, 39, 1000])
@pytest.mark.parametrize("evaluated", [(), (0,), (0, 1000)])
def test_it_is_a_small_picture_on_white(tmp_path: Path, count: int, evaluated: tuple[int, ...]) -> None:
    write_loss_plot(tmp_path / "loss.png", steps(count), evaluations(*evaluated))
    with Image.open(tmp_path / "loss.png") as image:
        assert image.size == (700, 400)
        assert nearest(image, (255, 255, 255)) < 8
        assert (nearest(image, (0x2F, 0x6F, 0xB5)) < 40) == (count > 0)
        assert (nearest(image, (0xC2, 0x57, 0x1A)) < 40) == bool(evaluated)
    assert (tmp_path / "loss.png").stat().st_size < 50_000


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        write_loss_plot(tmp_path / name, steps(50), evaluations(0, 50))
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@given(st.lists(st.floats(-100, 100), min_size=1), st.integers(1, 9))
@settings(deadline=None)
def test_a_running_mean_is_that_of_the_last_values(values: list[float], window: int) -> None:
    expected = []
    for end in range(1, len(values) + 1):
        last = values[max(0, end - window) : end]
        expected.append(sum(last) / len(last))
    assert running_mean(values, window) == pytest.approx(expected, abs=1e-9)


@given(st.floats(0, 1000), st.floats(1e-3, 1e6), st.integers(3, 10))
@settings(deadline=None)
def test_ticks_are_few_and_evenly_apart(low: float, width: float, most: int) -> None:
    found = ticks(low, low + width, most)
    assert 1 <= len(found) <= most + 1
    assert low - width * 1e-3 <= found[0]
    assert found[-1] <= low + width * 1.001
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert gaps == pytest.approx(gaps[:1] * len(gaps), rel=1e-4)
