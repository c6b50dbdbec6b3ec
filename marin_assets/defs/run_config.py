"""A run config file, as Dagster reads it, for commands that look at a run without running it.

Belongs here: the file's shape. Does not: the settings, which each asset checks itself.
"""

from pathlib import Path

import yaml
from pydantic import BaseModel, JsonValue, ValidationError

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
