"""A run's config: read from a file as Dagster reads it, and checked as a whole before anything is computed.

Belongs here: the shape of a run config, and errors that name a setting. Does not: the settings themselves.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from marin_assets.artifacts.stage_config import StageConfig
from marin_assets.defs.recipes import CACHED_ASSETS, CachedAsset
from marin_assets.errors import SettingsError


class _Configured(BaseModel):
    config: dict[str, JsonValue] = {}


class RunConfigFile(BaseModel):
    """What a run config says of assets and resources; all else in it concerns Dagster alone."""

    ops: dict[str, _Configured] = {}
    resources: dict[str, _Configured] = {}

    @property
    def settings(self) -> dict[str, dict[str, JsonValue]]:
        """Settings by asset name."""
        return {name: one.config for name, one in self.ops.items()}

    def resource(self, name: str, field: str, otherwise: str) -> str:
        """A text that a resource is configured with."""
        return str(self.resources.get(name, _Configured()).config.get(field, otherwise))


def read_run_config(path: Path | None) -> RunConfigFile:
    """Read a YAML file; None is an empty config.

    Raises:
        SettingsError: it is not YAML, or has not the shape of a run config.
    """
    if path is None:
        return RunConfigFile()
    try:
        return RunConfigFile.model_validate(yaml.safe_load(path.read_text()) or {})
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} is no run config: expected `ops: {{asset: {{config: {{...}}}}}}`: {error}"
        ) from error


def checked_settings(asset: CachedAsset, config: Mapping[str, JsonValue]) -> StageConfig:
    """The settings of one asset.

    Raises:
        SettingsError: a setting is unknown or not as it must be; the message names it and the asset.
    """
    try:
        return asset.settings.model_validate(dict(config))
    except ValidationError as error:
        raise SettingsError(" ".join(_words(asset, one) for one in error.errors())) from error


def check_all_settings(run_config: Mapping[str, object]) -> None:
    """Check the settings of all assets of a run, so that a mistake in the last one is told before the first is made.

    Raises:
        SettingsError: as `checked_settings`.
    """
    run = RunConfigFile.model_validate(run_config)
    for asset in CACHED_ASSETS:
        config = run.settings.get(asset.name, {})
        # Dagster itself fills in what a setting takes from the environment, when the asset's turn comes.
        if not any(isinstance(value, dict) and value.keys() == {"env"} for value in config.values()):
            checked_settings(asset, config)


def _words(asset: CachedAsset, error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"settings of {asset.name}: {message}."
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(asset.settings.model_fields))
        return f"{asset.name} has no setting {name!r}; it has {known}."
    return f"setting {name!r} of {asset.name} is {error['input']!r}: {message}."
