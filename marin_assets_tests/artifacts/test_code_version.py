"""What changes a code version, and what does not."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marin_assets.artifacts import code_version as module
from marin_assets.errors import StaleCodeError

Write = Callable[..., str]

STAGE = '''
"""A stage."""
from marin_assets_sample.helper import double


def run(x: int) -> int:
    """Doc."""
    # A comment.
    return double(x) + 1
'''
HELPER = "def double(x: int) -> int:\n    return 2 * x\n"


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a small package from texts, and give the code version of its `stage` module."""
    package = tmp_path / "marin_assets_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "PACKAGE", "marin_assets_sample")
    monkeypatch.setattr(module, "_NEUTRAL_MODULES", ("marin_assets_sample.neutral",))

    def write(stage: str = STAGE, helper: str = HELPER, **others: str) -> str:
        for name, text in {"stage": stage, "helper": helper, **others}.items():
            (package / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        module._read.cache_clear()
        return str(module.code_version("marin_assets_sample.stage"))

    yield write
    module._read.cache_clear()
    for name in [name for name in sys.modules if name.startswith("marin_assets_sample")]:
        del sys.modules[name]


def test_comments_docstrings_and_layout_do_not_count(version: Write) -> None:
    tidied = STAGE.replace("# A comment.", "# Another, longer one.").replace('"""Doc."""', '"""New words."""')
    tidied = tidied.replace("double(x) + 1", "(\n        double(x)\n        + 1\n    )")

    assert version(tidied) == version()


def test_a_changed_expression_counts(version: Write) -> None:
    assert version(STAGE.replace("+ 1", "+ 2")) != version()


def test_a_change_in_an_imported_module_counts(version: Write) -> None:
    assert version(helper=HELPER.replace("2 * x", "3 * x")) != version()


def test_a_change_behind_two_imports_counts(version: Write) -> None:
    helper = "from marin_assets_sample import deep\n\n\ndef double(x: int) -> int:\n    return deep.f(x)\n"

    first = version(helper=helper, deep="def f(x): return x\n")

    assert version(helper=helper, deep="def f(x): return x + x\n") != first


def test_an_import_inside_a_function_counts(version: Write) -> None:
    stage = STAGE.replace("    return", "    from marin_assets_sample.late import f\n    return")

    assert version(stage, late="def f(): return 1\n") != version(stage, late="def f(): return 2\n")


def test_a_module_that_is_not_imported_does_not_count(version: Write) -> None:
    assert version(unrelated="X = 1\n") == version(unrelated="X = 2\n")


def test_imports_for_type_checkers_do_not_count(version: Write) -> None:
    stage = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from marin_assets_sample.types import T\n" + STAGE

    assert version(stage, types="T = int\n") == version(stage, types="T = str\n")


def test_neutral_modules_do_not_count(version: Write) -> None:
    stage = "from marin_assets_sample.neutral import f\n" + STAGE

    assert version(stage, neutral="def f(): return 1\n") == version(stage, neutral="def f(): return 2\n")


def test_modules_that_import_each_other_are_read_once(version: Write) -> None:
    assert version(helper="import marin_assets_sample.stage\n" + HELPER)


def test_none_and_an_empty_default_are_told_apart(version: Write) -> None:
    assert version(STAGE + "\nX = None\n") != version(STAGE + "\nX = []\n")


def test_versions_of_imported_libraries_count(version: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = STAGE.replace("    return", "    import numpy\n    return")
    version(stage)
    before = module.code_version("marin_assets_sample.stage")

    monkeypatch.setattr(module, "_version", {"numpy": "0.1"}.get)
    after = module.code_version("marin_assets_sample.stage")

    assert "numpy" in before.libraries
    assert after.libraries == {"numpy": "0.1"}
    assert after.digest == before.digest
    assert str(after) != str(before)


def test_a_module_without_source_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_stage"):
        module.code_version("marin_assets.no_such_stage")


def test_code_that_was_edited_since_is_refused(version: Write) -> None:
    version()
    before = module.code_version("marin_assets_sample.stage")
    before.load()

    version(STAGE.replace("# A comment.", "# Another."))
    before.check()
    version(helper=HELPER.replace("2 * x", "3 * x"))

    with pytest.raises(StaleCodeError, match="run again"):
        before.check()
