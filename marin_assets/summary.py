"""What the latest artifacts hold, for a terminal: the end of `make run`, and `marin-assets summary`.

Belongs here: one line a stage, and what to do next. Does not: anything that reads data; manifests say it all.
"""

from pydantic import JsonValue
from rich.console import Console
from rich.table import Table

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.store import ArtifactStore

Stats = dict[str, JsonValue]


def show(console: Console, store: ArtifactStore, assets: tuple[str, ...]) -> None:
    """Print the latest artifact of each asset, where it is, and what to do next."""
    latest = {name: store.latest(name) for name in assets}
    console.print(_table(latest))
    model = latest.get("gpt2_model")
    if model is not None:
        console.print(_places(model), soft_wrap=True, highlight=False)


def _table(latest: dict[str, Artifact | None]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("asset", "rows", "size", "what became of it"):
        table.add_column(heading, justify="right" if heading in {"rows", "size"} else "left")
    for name, artifact in latest.items():
        if artifact is None:
            table.add_row(name, "", "", "[yellow]not made yet[/]")
        else:
            rows, words = _LINES[name](artifact.stats)
            table.add_row(name, f"{rows:,}" if rows is not None else "", _size(artifact.manifest.total_bytes), words)
    return table


def _markdown(stats: Stats) -> tuple[int | None, str]:
    statuses = stats["by_status"]
    assert isinstance(statuses, dict)
    words = ", ".join(f"{count:,} {status}" for status, count in statuses.items() if count)
    return _count(stats, "pages"), f"pages: {words}"


def _normalized(stats: Stats) -> tuple[int | None, str]:
    return _count(stats, "rows_out"), (
        f"{_count(stats, 'rows_blank'):,} without text dropped, "
        f"{_count(stats, 'rows_duplicate'):,} exact duplicates set aside"
    )


def _duplicates(stats: Stats) -> tuple[int | None, str]:
    repeated, all_of_them = _count(stats, "paragraphs_duplicate"), _count(stats, "paragraphs")
    share = _count(stats, "duplicate_bytes") / max(1, _count(stats, "text_bytes_in"))
    return _count(stats, "rows_out"), f"{repeated:,} of {all_of_them:,} paragraphs seen before, {share:.1%} of the text"


def _consolidated(stats: Stats) -> tuple[int | None, str]:
    return _count(stats, "rows_out"), (
        f"{_size(_count(stats, 'removed_bytes'))} cut out of {_count(stats, 'rows_changed'):,} documents, "
        f"{_count(stats, 'rows_dropped_blank'):,} left without text dropped"
    )


def _tokens(stats: Stats) -> tuple[int | None, str]:
    train, validation = stats["train"], stats["validation"]
    assert isinstance(train, dict)
    assert isinstance(validation, dict)
    return _count(stats, "documents"), (
        f"{_count(train, 'tokens'):,} tokens to train on, {_count(validation, 'tokens'):,} to validate, "
        f"{_number(stats, 'bytes_per_token'):.2f} bytes a token"
    )


def _model(stats: Stats) -> tuple[int | None, str]:
    words = (
        f"{_count(stats, 'parameters'):,} parameters, {_count(stats, 'steps'):,} steps, "
        f"loss {_number(stats, 'train_loss'):.3f}"
    )
    if stats["validation_loss"] is not None:
        words += f", validation {_number(stats, 'validation_loss'):.3f}"
    return None, words


_LINES = {
    "markdown_documents": _markdown,
    "normalized_documents": _normalized,
    "duplicate_paragraphs": _duplicates,
    "consolidated_documents": _consolidated,
    "token_cache": _tokens,
    "gpt2_model": _model,
}


def _places(model: Artifact) -> str:
    store = model.location.removesuffix(f"/gpt2_model/{model.manifest.fingerprint}")
    return (
        f"\nEverything is below [bold]{store}[/]; the model is in\n  {model.location}\n"
        f"  loss.png  samples.md  metrics.jsonl  checkpoints/  hf/ (for transformers)\n\n"
        "Next:\n"
        "  make ui                                       look at graph, runs and metadata\n"
        '  .venv/bin/marin-assets generate --prompt "A"  let the model write\n'
        "  MARIN_INPUT=/your/pages make run              the same on your own pages\n"
        "  .venv/bin/marin-assets plan                   what the next run would reuse, and why"
    )


def _count(stats: Stats, name: str) -> int:
    return int(_number(stats, name))


def _number(stats: Stats, name: str) -> float:
    value = stats[name]
    assert isinstance(value, int | float), f"{name} is {value!r}, not a number"
    return value


def _size(count: float) -> str:
    """1,234,567 as `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
