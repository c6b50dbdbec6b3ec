"""`marin-assets`: what Dagster has no command for.

Belongs here: arguments, and how results are shown in a terminal. Does not: the work.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from marin_assets import environment
from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.errors import DamagedArtifactError, MarinAssetsError, SettingsError

if TYPE_CHECKING:
    from marin_assets.gpt2.text_evaluation import TextEvaluation

console = Console()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Look at and into the artifacts of the HTML-to-GPT-2 pipeline.

    Reads the same variables as the pipeline: MARIN_PREFIX, MARIN_INPUT, MARIN_TOKENIZER.
    """


@commands.command()
@click.option("-c", "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Run config (YAML).")
def plan(config: Path | None) -> None:
    """What a run would reuse and what it would compute, and why, without running it."""
    from marin_assets.defs.plan import plan as planned
    from marin_assets.defs.run_config import read_run_config
    from marin_assets.stages.raw_html import raw_html
    from marin_assets.stages.tokenizer_file import tokenizer_file

    run = read_run_config(config)
    store = ArtifactStore(open_storage(run.resource("artifacts", "root", environment.PREFIX.value)))
    sources = {
        "raw_html": raw_html(Path(run.resource("html_source", "input", environment.INPUT.value))).digest,
        "tokenizer": tokenizer_file(run.resource("tokenizer", "tokenizer", environment.TOKENIZER.value)).digest,
    }
    table = Table("asset", "cache", "why", box=None, pad_edge=False)
    colours = {"hit": "green", "miss": "yellow", "open": "cyan"}
    for asset in planned(store, sources, run.settings):
        table.add_row(asset.name, f"[{colours[asset.outcome]}]{asset.outcome}[/]", asset.reason)
    console.print(table)


@commands.command()
def summary() -> None:
    """The latest artifact of every asset: rows, bytes, what became of them, and where they are."""
    from marin_assets.defs.recipes import CACHED_ASSETS
    from marin_assets.summary import show

    show(console, _store(), tuple(asset.name for asset in CACHED_ASSETS))


@commands.command()
@click.argument("assets", nargs=-1)
def verify(assets: tuple[str, ...]) -> None:
    """Read every file of every artifact (or of the named assets) and compare it with its digest."""
    store = _store()
    damaged = 0
    for artifact in _artifacts(store, assets):
        for entry in artifact.manifest.files:
            try:
                artifact.fetch(entry)
            except DamagedArtifactError as error:
                damaged += 1
                console.print(f"[red]damaged[/] {error}", soft_wrap=True)
    console.print("every file is as it was published" if not damaged else f"{damaged} files are damaged")
    sys.exit(1 if damaged else 0)


_MODEL = click.option(
    "--model",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of a Hugging Face GPT-2, or of a gpt2_model artifact.  [default: the latest model]",
)


@commands.command()
@click.option("--prompt", required=True, help="Text to go on from; empty starts a new text.")
@_MODEL
@click.option("--max-new-tokens", default=64, show_default=True, type=click.IntRange(min=1))
@click.option("--temperature", default=0.8, show_default=True, type=click.FloatRange(min=0.0), help="0 is greedy.")
@click.option("--top-k", default=50, show_default=True, type=click.IntRange(min=0), help="0 keeps every token.")
@click.option(
    "--top-p",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.0, max=1.0, min_open=True),
    help="Keeps the likeliest tokens that together have this probability; 1 keeps every token.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
def generate(
    prompt: str, model: Path | None, max_new_tokens: int, temperature: float, top_k: int, top_p: float, seed: int
) -> None:
    """Go on from a prompt until the model ends the text. The same options give the same text."""
    from marin_assets.gpt2.exported_model import ExportedModel
    from marin_assets.gpt2.generate import Sampling

    exported = ExportedModel.open(model or _latest_model())
    sampling = Sampling(temperature, top_k=top_k, top_p=top_p, seed=seed)
    text = exported.continue_prompt(prompt, sampling, max_new_tokens=max_new_tokens)
    console.print(f"[bold]{escape(prompt)}[/]{escape(text)}", highlight=False, soft_wrap=True)


@commands.group()
def export() -> None:
    """Write what an asset holds as files for other programs."""


@export.command("tokens")
@click.option("--format", "token_format", required=True, type=click.Choice(["bin", "megatron", "datatrove"]))
@click.option("--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
@click.option("--split", "splits", multiple=True, type=click.Choice(["train", "validation"]), help="Default: all.")
def export_tokens(token_format: str, output: Path, splits: tuple[str, ...]) -> None:
    """The latest tokens for nanoGPT (bin), Megatron-LM (megatron), or datatrove and Nanotron (datatrove)."""
    from marin_assets.token_export import export_tokens as exported
    from marin_assets.token_formats import TokenFormat

    for path in exported(_store().required("token_cache"), TokenFormat(token_format), output, splits):
        console.print(f"{path}  {path.stat().st_size:,} bytes", highlight=False, soft_wrap=True)


@commands.command()
@click.argument("texts", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_MODEL
@click.option(
    "--tokens",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of a token_cache artifact.  [default: the latest one, where no TEXTS are given]",
)
@click.option("--split", default="validation", show_default=True, type=click.Choice(["train", "validation"]))
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or a GPU if there is one.")
def evaluate(texts: tuple[Path, ...], model: Path | None, tokens: Path | None, split: str, device: str) -> None:
    """Loss, perplexity and bits per byte of a model on TEXTS (files of UTF-8 text), or on a token cache."""
    from marin_assets.gpt2.exported_model import ExportedModel
    from marin_assets.gpt2.text_evaluation import evaluate_text_file, evaluate_token_cache

    exported = ExportedModel.open(model or _latest_model())
    cache = tokens if tokens or texts else _latest_token_cache(split)
    table = Table(Column("text", overflow="fold"), box=None, pad_edge=False)
    for heading in ("tokens", "loss", "perplexity", "bits per byte"):
        table.add_column(heading, justify="right")
    with exported.on(device):
        for text in texts:
            table.add_row(str(text), *_evaluation_row(evaluate_text_file(exported, text)))
        if cache:
            table.add_row(f"{cache}/{split}", *_evaluation_row(evaluate_token_cache(exported, cache, split)))
    console.print(table)


def _evaluation_row(evaluation: "TextEvaluation") -> tuple[str, ...]:
    bits = evaluation.bits_per_byte
    return (
        f"{evaluation.tokens:,}",
        f"{evaluation.loss:.4f}",
        f"{evaluation.perplexity:,.2f}",
        "unknown" if bits is None else f"{bits:.4f}",
    )


def _latest_model() -> Path:
    return _store().required("gpt2_model").paths("hf/*")[0].parent


def _latest_token_cache(split: str) -> Path:
    """Only the split's own files are fetched."""
    cache = _store().required("token_cache")
    cache.paths(f"{split}/*")
    return cache.path("tokenizer.json").parent


def _store() -> ArtifactStore:
    return ArtifactStore(open_storage(environment.PREFIX.value))


def _artifacts(store: ArtifactStore, assets: tuple[str, ...]) -> list[Artifact]:
    from marin_assets.defs.recipes import CACHED_ASSETS

    names = [asset.name for asset in CACHED_ASSETS]
    unknown = sorted(set(assets) - set(names))
    if unknown:
        raise SettingsError(f"there is no asset {unknown[0]!r}; there are {', '.join(names)}")
    return [artifact for name in assets or names for artifact in store.artifacts(name)]


def main() -> None:
    """Entry point: what a user can mend ends in one line and exit code 1."""
    try:
        commands()
    except MarinAssetsError as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", soft_wrap=True)
        sys.exit(1)
