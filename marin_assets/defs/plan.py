"""What a run would reuse and what it would compute, without running it.

Belongs here: walking the recipes in order with the content digests that are known. Does not: showing the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from marin_assets.artifacts.store import ArtifactStore
from marin_assets.defs.recipes import CACHED_ASSETS, CachedAsset
from marin_assets.errors import SettingsError


@dataclass(frozen=True)
class PlannedAsset:
    """What would happen to one asset: `hit`, `miss`, or `open` where an input is not known before it is computed."""

    name: str
    outcome: str
    reason: str


def plan(
    store: ArtifactStore, sources: Mapping[str, str], config: Mapping[str, Mapping[str, JsonValue]]
) -> list[PlannedAsset]:
    """Plan a run of all assets.

    Args:
        store: where artifacts are kept.
        sources: digest of each source: `raw_html`, `tokenizer`.
        config: settings by asset name; an asset that is left out has its defaults.
    """
    unknown = sorted(set(config) - {asset.name for asset in CACHED_ASSETS})
    if unknown:
        raise SettingsError(f"the run config has settings for {unknown[0]!r}, which is no asset of this pipeline")
    known: dict[str, str | None] = dict(sources)
    planned = []
    for asset in CACHED_ASSETS:
        outcome, known[asset.name] = _plan_one(store, asset, known, config.get(asset.name, {}))
        planned.append(outcome)
    return planned


def _plan_one(
    store: ArtifactStore, asset: CachedAsset, known: Mapping[str, str | None], config: Mapping[str, JsonValue]
) -> tuple[PlannedAsset, str | None]:
    """The outcome, and the content digest where the artifact would be reused."""
    try:
        settings = asset.settings.model_validate(dict(config))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise SettingsError(f"setting {field!r} of {asset.name}: {first['msg']}") from error
    inputs = {name: known[name] for name in (*asset.assets, *asset.sources)}
    waiting_for = [name for name, digest in inputs.items() if digest is None]
    if waiting_for:
        reason = f"reused if the new {', '.join(waiting_for)} holds the same as an earlier one"
        return PlannedAsset(asset.name, "open", reason), None
    digests = {name: digest for name, digest in inputs.items() if digest is not None}
    force = bool(getattr(settings, "force", False))
    decision = store.decide(asset.recipe(asset.name, settings, digests, store), force=force)
    if decision.artifact is None:
        return PlannedAsset(asset.name, "miss", decision.reason), None
    return PlannedAsset(asset.name, "hit", decision.artifact.location), decision.artifact.content_digest
