"""The cache check that stands inside every asset.

Belongs here: what Dagster is told on a hit and on a miss. Does not: the decision itself, which is the store's.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import TypeAdapter

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.io_manager import as_dagster_failure
from marin_assets.artifacts.metadata import CACHE, REASON, of_artifact
from marin_assets.artifacts.store import ArtifactStore, Build
from marin_assets.defs.recipes import CachedAsset
from marin_assets.defs.settings import CachedAssetSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORCE_TAG = "marin/force"

Preview = Callable[[Callable[[str], Path]], Mapping[str, dg.MetadataValue]]
"""Makes metadata of an artifact's files, given the way from a file's name to its local path."""


def reuse_or_compute(
    context: dg.AssetExecutionContext,
    asset: CachedAsset,
    settings: CachedAssetSettings,
    store: ArtifactStore,
    inputs: Mapping[str, str],
    compute: "Callable[[ArtifactWriter], DataclassInstance]",
    *,
    resumable: bool = False,
    preview: Preview | None = None,
) -> dg.MaterializeResult:
    """Reuse the artifact of this recipe, or compute it for the I/O manager to publish.

    Args:
        context: of the step.
        asset: whose artifact it is.
        settings: this run's settings of the asset.
        store: where artifacts are kept.
        inputs: content digests by input name.
        compute: the stage; writes its files and returns its counts, as a dataclass.
        resumable: keep what a killed or failed attempt has prepared for the next.
        preview: more metadata, read from small files of the artifact.
    """
    with as_dagster_failure(), _logging_to(context):
        recipe = asset.recipe("/".join(context.asset_key.path), settings, inputs, store)
        force = settings.force or FORCE_TAG in context.run.tags
        decision = store.decide(recipe, force=force)
        found = decision.artifact or store.begin(recipe, force=force, resumable=resumable)
        if isinstance(found, Artifact):
            return _hit(context, store, found, preview)
        return _computed(context, store, found, compute, preview, keep=resumable)


def _hit(
    context: dg.AssetExecutionContext, store: ArtifactStore, artifact: Artifact, preview: Preview | None
) -> dg.MaterializeResult:
    store.point_to(artifact)
    context.log.info("cache hit: %s", artifact.location)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.content_digest),
        metadata={CACHE: "hit", **of_artifact(artifact), **_shown(preview, artifact.path)},
    )


def _computed(
    context: dg.AssetExecutionContext,
    store: ArtifactStore,
    build: Build,
    compute: "Callable[[ArtifactWriter], DataclassInstance]",
    preview: Preview | None,
    *,
    keep: bool,
) -> dg.MaterializeResult:
    context.log.info("cache miss: %s", build.reason)
    try:
        stats = compute(build.out)
        shown = _shown(preview, build.out.path)
    except BaseException:
        store.abandon(build, keep=keep)
        raise
    build.stats = TypeAdapter(dict).dump_python(dataclasses.asdict(stats), mode="json")
    context.log.info("computed: %s", ", ".join(f"{name} {value}" for name, value in build.stats.items()))
    return dg.MaterializeResult(value=build, metadata={CACHE: "miss", REASON: build.reason, **shown})


def _shown(preview: Preview | None, path: Callable[[str], Path]) -> Mapping[str, dg.MetadataValue]:
    return {} if preview is None else preview(path)


@contextmanager
def _logging_to(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Send what our modules log to the run's log, where the UI shows it."""
    handler = _ToRunLog(context.log)
    ours = logging.getLogger("marin_assets")
    level, propagates = ours.level, ours.propagate
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)
        ours.propagate = propagates


class _ToRunLog(logging.Handler):
    def __init__(self, log: dg.DagsterLogManager) -> None:
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log.log(record.levelno, record.getMessage())
