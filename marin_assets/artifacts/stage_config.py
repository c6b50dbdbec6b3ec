"""Settings of a stage, and which of them can change what the stage produces.

Belongs here: the base class of all stage settings. The settings themselves stand beside the code they steer.
"""

from pydantic import BaseModel, ConfigDict, JsonValue


class _Operational:
    """Marks a setting that cannot change the output: `workers: Annotated[int, OPERATIONAL] = 0`."""

    def __repr__(self) -> str:
        return "OPERATIONAL"


class _InputPath:
    """Marks a setting that names an input: what it holds is in the recipe, by its digest, and not where it lies."""

    def __repr__(self) -> str:
        return "INPUT_PATH"


OPERATIONAL = _Operational()
INPUT_PATH = _InputPath()


class StageConfig(BaseModel):
    """Frozen, validated settings; unknown names are refused; the string below a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def semantic(self) -> dict[str, JsonValue]:
        """The settings that are part of an artifact's fingerprint: all but those that are marked."""
        marked = {
            name
            for name, field in type(self).model_fields.items()
            if OPERATIONAL in field.metadata or INPUT_PATH in field.metadata
        }
        values: dict[str, JsonValue] = self.model_dump(mode="json", exclude=marked)
        return values
