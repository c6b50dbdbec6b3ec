"""`marin-assets`: what Dagster has no command for.

Belongs here: arguments, and how results are shown in a terminal. Does not: the work.
"""

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from marin_assets import environment
from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.errors import DamagedArtifactError, MarinAssetsError, SettingsError

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


@commands.command()
@click.option("--prompt", required=True, help="Text to go on from.")
@click.option("--max-new-tokens", default=64, show_default=True, type=click.IntRange(min=1))
@click.option("--temperature", default=0.8, show_default=True, type=click.FloatRange(min=0.0), help="0 is greedy.")
@click.option("--top-k", default=50, show_default=True, type=click.IntRange(min=0), help="0 keeps every token.")
@click.option("--seed", default=0, show_default=True)
def generate(prompt: str, max_new_tokens: int, temperature: float, top_k: int, seed: int) -> None:
    """Go on from a prompt with the latest model."""
    from marin_assets.gpt2.completion import continue_prompt

    model = _store().required("gpt2_model")
    directory = model.paths("hf/*")[0].parent
    text = continue_prompt(
        directory, prompt, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, seed=seed
    )
    console.print(f"[bold]{escape(prompt)}[/]{escape(text)}", highlight=False, soft_wrap=True)


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
