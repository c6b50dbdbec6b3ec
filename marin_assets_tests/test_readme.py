"""The README says what is so: its table of settings, its Python example, its commands."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from marin_assets.artifacts.stage_config import OPERATIONAL
from marin_assets.defs.recipes import CACHED_ASSETS
from marin_assets_tests.project import REPOSITORY

README = REPOSITORY / "README.md"
SETTINGS = re.compile(r"(?<=<!-- settings -->\n).*(?=<!-- /settings -->)", re.DOTALL)


def settings_table() -> str:
    """One row a setting, from the settings classes themselves."""
    rows = ["| asset | setting | default | what it does |", "|---|---|---|---|"]
    for asset in CACHED_ASSETS:
        for name, field in asset.settings.model_fields.items():
            if name == "force":
                continue
            default = field.get_default(call_default_factory=True)
            shown = (
                "" if default in ("", None) else yaml.safe_dump(_plain(default), default_flow_style=True).split("\n")[0]
            )
            note = " Does not change the result." if OPERATIONAL in field.metadata else ""
            description = " ".join((field.description or "").split()).replace("|", "\\|")
            rows.append(f"| `{asset.name}` | `{name}` | {f'`{shown}`' if shown else ''} | {description}{note} |")
    return "\n".join(rows) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, list):
        return "see description" if value and hasattr(value[0], "model_dump") else value
    return getattr(value, "value", value)


def test_the_table_of_settings_is_what_the_code_has() -> None:
    found = SETTINGS.search(README.read_text())

    assert found is not None
    assert found[0] == settings_table(), "run `python -m marin_assets_tests.test_readme` to write the table anew"


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert example is not None
    environment = {"MARIN_PREFIX": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_every_place_that_is_named_exists() -> None:
    places = re.findall(r"^\| `([a-z_0-9/.]+(?:/|\.py))` \|", README.read_text(), re.MULTILINE)

    assert len(places) > 5
    assert [place for place in places if not (REPOSITORY / place).exists()] == []


if __name__ == "__main__":
    README.write_text(SETTINGS.sub(lambda _: settings_table(), README.read_text()))
