"""Run config of each asset: the settings of its stage, and the one that all share.

Belongs here: the wrapping of stage settings for Dagster. Does not: the fields, which stand beside the code they steer.
"""

from typing import Annotated, TypeVar

import dagster as dg
from pydantic import Field

from marin_assets.artifacts.stage_config import INPUT_PATH, OPERATIONAL, StageConfig
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.stages.attribute_filters import AttributeFilter
from marin_assets.stages.consolidate import ConsolidateConfig
from marin_assets.stages.exact_paragraph_dedup import ExactParagraphDedupConfig
from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig
from marin_assets.stages.normalize import NormalizeConfig
from marin_assets.stages.tokenize import TokenizeConfig

Plain = TypeVar("Plain", bound=StageConfig)


class CachedAssetSettings(StageConfig, dg.Config):
    """What every cached asset understands."""

    force: Annotated[bool, OPERATIONAL] = False
    """Recompute even where there is an artifact to reuse; the run tag `marin/force` does the same for all assets."""

    def of(self, plain: type[Plain]) -> Plain:
        """The stage's own settings object, which worker processes can unpickle without Dagster."""
        return plain.model_validate(self.model_dump(include=set(plain.model_fields)))


class MarkdownDocumentsSettings(HtmlToMarkdownConfig, CachedAssetSettings):
    """Settings of `markdown_documents`."""


class NormalizedDocumentsSettings(NormalizeConfig, CachedAssetSettings):
    """Settings of `normalized_documents`."""


class DuplicateParagraphsSettings(ExactParagraphDedupConfig, CachedAssetSettings):
    """Settings of `duplicate_paragraphs`."""

    dedup_against: Annotated[list[str], INPUT_PATH] = []  # noqa: RUF012 - Pydantic copies it
    """Earlier `duplicate_paragraphs` whose paragraphs are removed as repeats: fingerprints of artifacts in this store,
    or folders of artifacts elsewhere (`path/duplicate_paragraphs/FINGERPRINT`, also `s3://…`). What they hold is part
    of the fingerprint, where they are is not."""


class AttributeFilterSettings(AttributeFilter, dg.Config):
    """One filter of `consolidated_documents`."""


def _default_filters() -> list[AttributeFilterSettings]:
    return [AttributeFilterSettings.model_validate(one.model_dump()) for one in ConsolidateConfig().filters]


class ConsolidatedDocumentsSettings(ConsolidateConfig, CachedAssetSettings):
    """Settings of `consolidated_documents`."""

    # Dagster takes no nested class but its own, so the type of this one field is narrowed.
    filters: list[AttributeFilterSettings] = Field(  # type: ignore[assignment]
        default_factory=_default_filters, description=ConsolidateConfig.model_fields["filters"].description
    )


class TokenCacheSettings(TokenizeConfig, CachedAssetSettings):
    """Settings of `token_cache`."""


class Gpt2ModelSettings(TrainingConfig, CachedAssetSettings):
    """Settings of `gpt2_model`."""
