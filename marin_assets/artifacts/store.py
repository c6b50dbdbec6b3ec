"""The store: decides what can be reused and why not, hands out builds, publishes them.

Belongs here: the rules of caching. Does not: how bytes are kept (`storage`), what is computed (`stages`, `gpt2`).
"""

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import BaseModel, JsonValue, ValidationError

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.lineage import ancestors
from marin_assets.artifacts.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest, Recipe, content_digest
from marin_assets.artifacts.storage import Lease, Storage
from marin_assets.errors import DamagedArtifactError, InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """Whether a recipe's artifact can be reused; the reasons where it can't."""

    artifact: Artifact | None
    reasons: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        return "; ".join(self.reasons)


@dataclass
class Build:
    """An artifact being computed, under its lease, until it is published or abandoned."""

    recipe: Recipe
    out: ArtifactWriter
    lease: Lease
    reason: str
    storage: Storage
    """The one that holds the lease and knows what is on its way: whoever publishes must go through it."""
    stats: dict[str, JsonValue] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    _held: ExitStack = field(default_factory=ExitStack)

    def release(self) -> None:
        """Give the lease back. Does nothing the second time."""
        self._held.close()


class _Latest(BaseModel):
    fingerprint: str


@dataclass(frozen=True)
class ArtifactStore:
    """All artifacts below one root."""

    storage: Storage

    def decide(self, recipe: Recipe, *, force: bool = False) -> Decision:
        """Look for the recipe's artifact; reads manifests and file sizes, never data."""
        if force:
            return Decision(None, ("forced",))
        directory = _directory(recipe.asset_key, recipe.fingerprint)
        manifest, fault = self._manifest(directory)
        if manifest is None:
            return Decision(None, (fault,) if fault else self._what_changed(recipe))
        problem = self.storage.problem(directory, manifest)
        if problem is not None:
            return Decision(None, (problem,))
        return Decision(self._handle(manifest))

    def artifact(self, asset_key: str, fingerprint: str) -> Artifact | None:
        """A published artifact, or None. Its files are not looked at.

        Raises:
            DamagedArtifactError: its manifest cannot be read.
        """
        directory = _directory(asset_key, fingerprint)
        manifest, fault = self._manifest(directory)
        if fault:
            raise DamagedArtifactError(
                f"{self.storage.location(directory)}: {fault}. Materialize {asset_key} again to rebuild it."
            )
        return None if manifest is None else self._handle(manifest)

    def latest(self, asset_key: str) -> Artifact | None:
        """The artifact that was published or reused last."""
        data = self.storage.read(f"{asset_key}/latest.json")
        if data is None:
            return None
        try:
            fingerprint = _Latest.model_validate_json(data).fingerprint
        except ValidationError:
            logger.warning("%s cannot be read; it is ignored", self.storage.location(f"{asset_key}/latest.json"))
            return None
        return self.artifact(asset_key, fingerprint)

    def required(self, asset_key: str, fingerprint: str | None = None) -> Artifact:
        """The artifact with this fingerprint, or the latest. Raises `InputError` where there is none."""
        found = self.artifact(asset_key, fingerprint) if fingerprint else self.latest(asset_key)
        if found is None:
            raise InputError(
                f"there is no {asset_key} in {self.storage.location('')}. Materialize {asset_key} first, "
                "or set MARIN_PREFIX to the store that has it."
            )
        return found

    def artifacts(self, asset_key: str) -> list[Artifact]:
        """Every artifact of an asset whose manifest can be read, oldest first."""
        manifests = [self._manifest(directory)[0] for directory in self.storage.directories(asset_key)]
        readable = sorted((one for one in manifests if one is not None), key=lambda one: one.created_at)
        return [self._handle(manifest) for manifest in readable]

    def point_to(self, artifact: Artifact) -> None:
        """Make an artifact the latest of its asset."""
        key = f"{artifact.manifest.asset_key}/latest.json"
        data = _Latest(fingerprint=artifact.manifest.fingerprint).model_dump_json().encode()
        if self.storage.read(key) != data:
            self.storage.write(key, data)

    def begin(self, recipe: Recipe, *, force: bool = False, resumable: bool = False) -> Build | Artifact:
        """Take the lease and start to compute, or get what another process has published meanwhile.

        Args:
            recipe: what is to be built.
            force: build even where there is an artifact to reuse.
            resumable: keep what a killed process has prepared for the same recipe.
        """
        directory = _directory(recipe.asset_key, recipe.fingerprint)
        held = ExitStack()
        lease = held.enter_context(self.storage.lease(directory))
        try:
            decision = self.decide(recipe, force=force)
            if decision.artifact is not None:
                held.close()
                return decision.artifact
            staging = self.storage.staging(directory, keep=resumable)
        except BaseException:
            held.close()
            raise
        writer = ArtifactWriter(
            staging, on_added=lambda entry, path: self.storage.added(directory, entry, path), recipe=recipe
        )
        return Build(recipe, writer, lease, decision.reason, self.storage, _held=held)

    def abandon(self, build: Build, *, keep: bool) -> None:
        """Give up a build; with `keep` its files stay for the next attempt."""
        try:
            if not keep:
                build.storage.discard(_directory(build.recipe.asset_key, build.recipe.fingerprint))
        finally:
            build.release()

    def publish(self, build: Build, *, run_id: str | None = None) -> Artifact:
        """Make a finished build visible, under its lease, and the latest of its asset."""
        recipe = build.recipe
        manifest = Manifest(
            fingerprint=recipe.fingerprint,
            recipe=recipe,
            content_digest=content_digest(build.out.entries),
            files=build.out.entries,
            stats=build.stats,
            columns=build.out.columns,
            wall_seconds=round(time.monotonic() - build.started, 3),
            created_at=datetime.now(UTC),
            run_id=run_id,
        )
        try:
            build.lease.check()
            build.storage.publish(_directory(recipe.asset_key, recipe.fingerprint), build.out.directory, manifest)
            artifact = self._handle(manifest)
            self.point_to(artifact)
        finally:
            build.release()
        return artifact

    def _handle(self, manifest: Manifest) -> Artifact:
        directory = _directory(manifest.asset_key, manifest.fingerprint)
        return Artifact(
            manifest,
            self.storage.location(directory),
            fetch=lambda entry: self.storage.fetch(directory, entry),
            ancestors=lambda: ancestors(self, manifest),
        )

    def _manifest(self, directory: str) -> tuple[Manifest | None, str]:
        """The manifest, or what is wrong with it, or neither where there is none."""
        data = self.storage.read(f"{directory}/{MANIFEST_NAME}")
        if data is None:
            return None, ""
        try:
            manifest = Manifest.model_validate_json(data)
        except ValidationError as error:
            return None, f"manifest damaged: {error.errors()[0]['msg']}"
        if manifest.format_version != FORMAT_VERSION:
            return None, f"manifest has format {manifest.format_version}, this program reads {FORMAT_VERSION}"
        if manifest.fingerprint != directory.rsplit("/", 1)[1] or manifest.recipe.fingerprint != manifest.fingerprint:
            return None, "manifest altered: its fingerprint is not its recipe's"
        if manifest.content_digest != content_digest(manifest.files):
            return None, "manifest altered: its content digest is not its files'"
        return manifest, ""

    def _what_changed(self, recipe: Recipe) -> tuple[str, ...]:
        try:
            latest = self.latest(recipe.asset_key)
        except DamagedArtifactError:
            latest = None
        if latest is not None:
            return differences(latest.manifest.recipe, recipe) or ("never built",)
        if self.storage.read(f"{recipe.asset_key}/latest.json") is not None:
            return ("file missing: manifest.json",)
        return ("never built",)


def differences(old: Recipe, new: Recipe) -> tuple[str, ...]:
    """What makes two recipes differ, in words; code first, then settings, then inputs."""
    libraries = [
        f"library changed: {name} {old.libraries.get(name, 'absent')} → {new.libraries.get(name, 'absent')}"
        for name in _changed(old.libraries, new.libraries)
    ]
    code = ["code changed"] if old.code_version != new.code_version else []
    settings = [f"config changed: {name}" for name in _changed(old.config, new.config)]
    inputs = [f"input changed: {name}" for name in _changed(old.inputs, new.inputs)]
    return (*code, *libraries, *settings, *inputs)


def _changed(old: dict[str, JsonValue] | dict[str, str], new: dict[str, JsonValue] | dict[str, str]) -> list[str]:
    absent = object()
    return sorted(name for name in {*old, *new} if old.get(name, absent) != new.get(name, absent))


def _directory(asset_key: str, fingerprint: str) -> str:
    return f"{asset_key}/{fingerprint}"
