"""A copy of the package and a small input in a folder of its own, whose code tests may edit and run.

Belongs here: the copy, its edits, its environment. Does not: ways to run it (`drivers`).
"""

import gzip
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TOKENIZER = REPOSITORY / "fixtures" / "gpt2_tokenizer.json"

ASSETS = (
    "markdown_documents",
    "normalized_documents",
    "duplicate_paragraphs",
    "consolidated_documents",
    "token_cache",
    "gpt2_model",
)

REPEATED = "Ein Absatz mit Umlauten – äöü – und 漢字, der auf mehreren Seiten steht und darum einmal genügt. " * 2


@dataclass(frozen=True)
class Project:
    """A checkout of its own."""

    folder: Path
    store_name: str = "data"
    input_name: str = "pages"

    @property
    def store(self) -> Path:
        return self.folder / self.store_name

    @property
    def input(self) -> Path:
        return self.folder / self.input_name

    def edit(self, module: str, old: str, new: str) -> None:
        """Replace a text that stands in a module."""
        path = self._path(module)
        text = path.read_text()
        assert old in text, f"{module} does not contain {old!r}"
        path.write_text(text.replace(old, new, 1))

    def append(self, module: str, text: str) -> None:
        """Add lines at the end of a module."""
        path = self._path(module)
        path.write_text(f"{path.read_text()}\n\n{text}\n")

    def artifact(self, asset: str) -> Path:
        """Folder of an asset's latest artifact."""
        latest: dict[str, str] = json.loads((self.store / asset / "latest.json").read_text())
        return self.store / asset / latest["fingerprint"]

    def manifest(self, asset: str) -> dict[str, object]:
        """Manifest of an asset's latest artifact."""
        content: dict[str, object] = json.loads((self.artifact(asset) / "manifest.json").read_text())
        return content

    def content_digests(self) -> dict[str, object]:
        """Content digest of the latest artifact of every asset."""
        return {asset: self.manifest(asset)["content_digest"] for asset in ASSETS}

    def environment(self, home: Path | None = None, more: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Environment of a process that runs this copy and nothing of the caller's."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MARIN_", "DAGSTER_"))}
        home = home or self.folder
        home.mkdir(exist_ok=True)
        return {
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DAGSTER_HOME": str(home),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "MARIN_PREFIX": str(self.store),
            "MARIN_INPUT": str(self.input),
            "MARIN_TOKENIZER": str(TOKENIZER),
            **(more or {}),
        }

    def _path(self, module: str) -> Path:
        return self.folder.joinpath(*module.split(".")).with_suffix(".py")


def copy_project(folder: Path) -> Project:
    """The package, Dagster's settings, and sixty small pages of which some share a paragraph."""
    shutil.copytree(REPOSITORY / "marin_assets", folder / "marin_assets", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(REPOSITORY / name, folder / name)
    project = Project(folder)
    write_pages(project.input)
    return project


def write_pages(folder: Path, count: int = 60) -> None:
    """Pages in two compressed JSONL files and one plain HTML file."""
    folder.mkdir(parents=True)
    records = [_record(number) for number in range(count)]
    for index, part in enumerate((records[::2], records[1::2])):
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in part)
        (folder / f"pages-{index}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (folder / "alone.html").write_text(_html(count), encoding="utf-8")


def _record(number: int) -> dict[str, object]:
    return {
        "id": f"page-{number:03d}",
        "text": _html(number),
        "source": "test",
        "metadata": {"fineweb_metadata": {"url": f"https://example.org/{number}"}},
    }


def _html(number: int) -> str:
    own = " ".join(
        f"On page {number}, sentence {sentence} says that {number * sentence} apples were picked in the old orchard."
        for sentence in range(1, 7)
    )
    more = " ".join(
        f"Later, {number + sentence} visitors came to see page {number} and stayed." for sentence in range(6)
    )
    repeated = f"<p>{REPEATED}</p>" if number % 3 == 0 else ""
    return (
        f"<html><head><title>Page {number}</title></head><body><nav><a href='/'>Home</a></nav>"
        f"<article><h1>Page {number}</h1><p>{own}</p>{repeated}<p>{more}</p></article></body></html>"
    )
