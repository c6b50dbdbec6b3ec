"""What the model writes when asked with the fixed prompts of a run.

Belongs here: a sample, how a run's samples are drawn, how they are shown. Does not: choosing tokens (`generate`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.corpus import Corpus
from marin_assets.gpt2.generate import Sampling, generate
from marin_assets.gpt2.model import Gpt2


@dataclass(frozen=True)
class Sample:
    """A prompt continued by the model as it was after `step` updates."""

    step: int
    prompt: str
    continuation: str


def draw_samples(model: Gpt2, corpus: Corpus, config: TrainingConfig, *, step: int) -> list[Sample]:
    """Continue each prompt of the config; the n-th is drawn with seed `config.seed + n`."""
    tokenizer = corpus.tokenizer
    return [
        Sample(
            step,
            prompt,
            generate(
                model,
                tokenizer,
                prompt,
                Sampling(config.sample_temperature, top_k=config.sample_top_k, seed=config.seed + number),
                max_new_tokens=config.sample_tokens,
                end_of_text=corpus.end_of_text_id,
            ),
        )
        for number, prompt in enumerate(config.sample_prompts)
    ]


def samples_markdown(samples: Iterable[Sample]) -> str:
    """Samples as quotations, newest step first."""
    newest_first = sorted(samples, key=lambda sample: -sample.step)
    sections = []
    for step, of_step in groupby(newest_first, key=lambda sample: sample.step):
        sections.append(f"## Samples after {step} steps\n\n" + "\n".join(map(_quotation, of_step)))
    return "\n".join(sections)


def _quotation(sample: Sample) -> str:
    """The text in a block of its own, in which nothing that the model writes is taken for Markdown."""
    text = sample.prompt + sample.continuation
    ticks = max((len(run) for run in _runs_of_backticks(text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}text\n{text}\n{fence}\n"


def _runs_of_backticks(text: str) -> list[str]:
    return ["".join(run) for is_tick, run in groupby(text, key=lambda character: character == "`") if is_tick]
