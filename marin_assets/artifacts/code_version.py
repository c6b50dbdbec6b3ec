"""Computed code versions: what of our code and of other libraries decides an artifact's bytes.

Belongs here: the hash over syntax trees, and the versions of the libraries that they import. Nothing is imported to
find out: modules are read as text.
"""

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from marin_assets.artifacts.manifest import digest_of_json
from marin_assets.errors import StaleCodeError

PACKAGE = "marin_assets"

# They carry bytes and messages and never choose them, or make files that are no content of an artifact (pictures,
# pages, timings), so that a change there recomputes nothing.
_NEUTRAL_MODULES = (
    f"{PACKAGE}.artifacts",
    f"{PACKAGE}.errors",
    f"{PACKAGE}.gpt2.event_file",
    f"{PACKAGE}.gpt2.loss_plot",
    f"{PACKAGE}.gpt2.model_card",
    f"{PACKAGE}.gpt2.throughput",
)
# gigatoken encodes only where its ids are those of `tokenizers`, which counts: whether it is installed decides time.
# huggingface_hub brings a tokenizer's file, whose digest counts.
_NEUTRAL_LIBRARIES = frozenset({"pydantic", "gigatoken", "huggingface_hub"})


@dataclass(frozen=True)
class CodeVersion:
    """The code that makes an artifact."""

    digest: str
    """Hash of the first-party modules, 32 hex digits."""
    libraries: dict[str, str]
    """Version by name of each library that these modules import."""
    modules: tuple[str, ...]
    """Names of the modules."""

    def load(self, *, expected: str | None = None) -> None:
        """Import every one of the modules.

        Args:
            expected: the digest that they must have; by default that of this version.

        Raises:
            StaleCodeError: they are not that code any more.
        """
        for name in self.modules:
            importlib.import_module(name)
        self.check(expected=expected)

    def check(self, *, expected: str | None = None) -> None:
        """Raise `StaleCodeError` if the modules' files say something else than when the version was computed."""
        _read.cache_clear()
        if _digest(self.modules) != (expected or self.digest):
            raise StaleCodeError(
                "code of this asset was edited after the run had begun, so its result belongs to no one version. "
                "Nothing was published; run again."
            )

    def __str__(self) -> str:
        return digest_of_json([self.digest, dict(self.libraries)])[:16]


def code_version(module: str) -> CodeVersion:
    """The version of a module together with all first-party modules that it imports, directly or through others.

    Comments, docstrings, layout and imports that only type checkers see do not count.
    """
    modules = tuple(sorted(_reachable(module)))
    imported = sorted({library for name in modules for library in _read(name).libraries} - _NEUTRAL_LIBRARIES)
    versions = {name: version for name in imported if (version := _version(name))}
    return CodeVersion(_digest(modules), versions, modules)


def _digest(modules: Iterable[str]) -> str:
    return hashlib.sha256("".join(f"{name}={_read(name).digest};" for name in modules).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Source:
    digest: str
    first_party: frozenset[str]
    libraries: frozenset[str]


def _reachable(start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in found and not _is_neutral(name):
            found.add(name)
            waiting.extend(_read(name).first_party)
    return found


def _is_neutral(module: str) -> bool:
    return any(module == neutral or module.startswith(f"{neutral}.") for neutral in _NEUTRAL_MODULES)


@cache
def _read(module: str) -> _Source:
    tree = ast.parse(_path(module).read_bytes())
    _strip(tree)
    imported = set(_imports(tree))
    first_party = frozenset(name for name in imported if name.split(".")[0] == PACKAGE and _is_module(name))
    libraries = frozenset(name.split(".")[0] for name in imported) - {PACKAGE}
    return _Source(hashlib.sha256(_canonical(tree).encode()).hexdigest(), first_party, libraries)


def _path(module: str) -> Path:
    path = _find(module)
    if path is None:
        raise ModuleNotFoundError(f"{module} has no source file, so its code version cannot be computed")
    return path


def _is_module(name: str) -> bool:
    return _find(name) is not None


def _find(module: str) -> Path | None:
    """A first-party module's file, found without importing it or its parents."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        return None
    place = Path(package.origin).parent.joinpath(*module.split(".")[1:])
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _strip(tree: ast.AST) -> None:
    """Remove docstrings and blocks for type checkers, in place."""
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [one for one in block if not _is_string(one) and not _is_type_checking(one)])


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(tree: ast.AST) -> Iterator[str]:
    """Full names of what is imported anywhere in a module; `from a import b` gives `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _canonical(node: object) -> str:
    """A text of the tree without positions and empty fields, so that Python releases agree on it."""
    if isinstance(node, ast.AST):
        fields = (f"{name}={_canonical(value)}" for name, value in ast.iter_fields(node) if value not in (None, []))
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    return repr(node)


@cache
def _version(library: str) -> str | None:
    """Version of the distribution of that name; None for the standard library."""
    if library == "unicodedata":
        return unicodedata.unidata_version
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None
