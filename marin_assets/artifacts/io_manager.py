"""The Dagster I/O manager: hands the next asset an artifact to read, publishes what an asset has built.

Belongs here: the translation between Dagster's inputs and outputs and the store. Does not: any rule of caching.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.metadata import FINGERPRINT, of_artifact
from marin_assets.artifacts.s3_options import S3Options
from marin_assets.artifacts.storage import open_storage
from marin_assets.artifacts.store import ArtifactStore, Build
from marin_assets.errors import MarinAssetsError


class ArtifactIOManager(dg.ConfigurableIOManager):
    """Keeps artifacts below `root`: a local path or `s3://bucket/prefix`."""

    root: str = "./marin_data"
    """Local path, or `s3://bucket/prefix`; set by MARIN_PREFIX."""

    cache: str = ""
    """Local folder for downloads from S3; by default in the user's cache folder."""

    def store(self) -> ArtifactStore:
        """The store below `root`, opened once a process."""
        return _open(self.root, self.cache)

    def handle_output(self, context: dg.OutputContext, obj: Build) -> None:
        """Publish a build, and tell Dagster its content digest and metadata."""
        with as_dagster_failure():
            artifact = self.store().publish(obj, run_id=context.run_id)
        context.step_context.set_data_version(context.asset_key, dg.DataVersion(artifact.content_digest))
        context.add_output_metadata(of_artifact(artifact))

    def load_input(self, context: dg.InputContext) -> Artifact:
        """A handle on what this run built or reused; for an asset outside this run, on its latest artifact."""
        key = "/".join(context.asset_key.path)
        with as_dagster_failure():
            return self.store().required(key, _fingerprint_in_this_run(context))


@contextmanager
def as_dagster_failure() -> Iterator[None]:
    """What the user can mend ends the step with our message on top, and is not tried again."""
    try:
        yield
    except MarinAssetsError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


@functools.cache
def _open(root: str, cache: str) -> ArtifactStore:
    return ArtifactStore(open_storage(root, cache=Path(cache) if cache else None, s3=_s3_options(root)))


def _s3_options(root: str) -> S3Options | None:
    """Options as dagster-aws resolves them; it is imported only for S3, since that takes seconds."""
    if not root.startswith("s3://"):
        return None
    from dagster_aws.s3 import S3Resource

    return S3Options.from_resource(S3Resource())


def _fingerprint_in_this_run(context: dg.InputContext) -> str | None:
    """Two runs at once may move `latest`, so a run reads what its own steps say they made."""
    entries = context.instance.all_logs(context.step_context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    for entry in reversed(entries):
        event = entry.get_dagster_event()
        if event.asset_key == context.asset_key:
            value = event.step_materialization_data.materialization.metadata[FINGERPRINT].value
            return str(value)
    return None
