"""The model card: what the model is, from which pages it was made, by which code and settings, how good it is.

Belongs here: the page. Does not: any number that is computed for it alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from marin_assets.gpt2.config import TrainingConfig

if TYPE_CHECKING:
    from pydantic import JsonValue

    from marin_assets.artifacts.manifest import Manifest, Recipe
    from marin_assets.gpt2.evaluation import Evaluation
    from marin_assets.gpt2.results import TrainingStats

_EVALUATIONS_SHOWN = 12


def model_card(
    config: TrainingConfig,
    stats: TrainingStats,
    evaluations: Sequence[Evaluation],
    *,
    origin: Sequence[Manifest],
    recipe: Recipe | None,
) -> str:
    """The page as Markdown, with the head that Hugging Face reads.

    Args:
        origin: the token cache and what it was made from, nearest first; empty where tokens were given otherwise.
        recipe: of the model; None where it is not made for a store.
    """
    sections = [
        "---\nlibrary_name: transformers\npipeline_tag: text-generation\n---",
        _what_it_is(config, stats),
        _losses(stats, evaluations),
        _made_from(origin),
        _made_by(recipe),
        f"## Settings\n\n```json\n{json.dumps(config.semantic(), indent=2)}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def _what_it_is(config: TrainingConfig, stats: TrainingStats) -> str:
    size = config.size
    return (
        f"# GPT-2 with {stats.parameters:,} parameters\n\n"
        f"{size.layers} layers, {size.heads} heads, {size.hidden_size} wide; {stats.vocabulary_size:,} tokens in its "
        f"vocabulary, {config.sequence_length:,} positions. "
        f"Trained for {stats.steps:,} steps on {stats.trained_tokens:,} tokens, {stats.epochs:g} times the "
        f"{stats.train_tokens:,} of the training split, on {stats.device}.\n\n"
        "It continues text like that it was trained on. What the pages got wrong, it may repeat."
    )


def _losses(stats: TrainingStats, evaluations: Sequence[Evaluation]) -> str:
    every = -(-len(evaluations) // _EVALUATIONS_SHOWN) or 1
    shown = list(evaluations[::-1][::every])[::-1]  # the last one always
    rows = [(f"{one.step:,}", f"{one.loss:.4f}", _number(one.bits_per_byte), f"{one.tokens:,}") for one in shown]
    table = _table(("after step", "validation loss, nats a token", "bits a byte", "tokens predicted"), rows)
    last = f"Training loss of the last step: {_number(stats.train_loss)} nats a token."
    return f"## How good it is\n\n{last}\n\n{table if rows else 'The validation split is too short for a loss.'}"


def _made_from(origin: Sequence[Manifest]) -> str:
    if not origin:
        return "## Made from\n\nTokens that were given to the trainer directly."
    rows = [
        *_sources(origin),
        *((one.asset_key, one.content_digest, _counts(one.stats)) for one in reversed(origin)),
    ]
    return "## Made from\n\n" + _table(("what", "content digest", "counts"), rows)


def _sources(origin: Sequence[Manifest]) -> Iterator[tuple[str, str, str]]:
    """Inputs that no artifact of ours holds: the pages, the tokenizer; or what the store has lost."""
    known = {one.asset_key for one in origin}
    inputs = {name: digest for one in reversed(origin) for name, digest in one.recipe.inputs.items()}
    yield from ((name, digest, "") for name, digest in inputs.items() if name not in known)


def _counts(stats: dict[str, JsonValue]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in stats.items() if isinstance(value, int))


def _made_by(recipe: Recipe | None) -> str:
    if recipe is None:
        return "## Made by\n\nThe trainer of marin_assets, outside of a store."
    rows = [
        ("fingerprint", recipe.fingerprint),
        ("code version", recipe.code_version),
        *(sorted(recipe.libraries.items())),
    ]
    return "## Made by\n\n" + _table(("what", "version"), rows)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
