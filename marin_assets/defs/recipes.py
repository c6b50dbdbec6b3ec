"""What each cached asset is made by and from: the facts that decide its fingerprint.

Belongs here: one entry an asset, read by the assets and by `marin-assets plan`. Does not: how it is computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from marin_assets.artifacts.code_version import CodeVersion, code_version
from marin_assets.artifacts.manifest import Recipe
from marin_assets.artifacts.stage_config import StageConfig
from marin_assets.artifacts.store import ArtifactStore
from marin_assets.defs import settings
from marin_assets.defs.earlier_corpora import earlier_corpora
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.gpt2.initial_weights import digests
from marin_assets.stages.paragraph_hashes import index_digest


def _no_named_inputs(_config: StageConfig, _store: ArtifactStore) -> Mapping[str, str]:
    return {}


def _initial_weights(config: TrainingConfig, _store: ArtifactStore) -> Mapping[str, str]:
    return digests(config.init_from)


def _earlier_corpora(config: settings.DuplicateParagraphsSettings, store: ArtifactStore) -> Mapping[str, str]:
    named = earlier_corpora(store, config.dedup_against)
    return {"dedup_against": index_digest(named)} if named else {}


@dataclass(frozen=True)
class CachedAsset:
    """An asset whose artifact is reused while its recipe stays the same."""

    name: str
    module: str
    """The module that computes it; together with what it imports, it is the code version."""
    settings: type[StageConfig]
    """Run config; its defaults are the quick start's."""
    assets: tuple[str, ...] = ()
    """Assets that it is made from."""
    sources: tuple[str, ...] = ()
    """What else it is made from: `raw_html`, `tokenizer`."""
    named_inputs: Callable[[Any, ArtifactStore], Mapping[str, str]] = _no_named_inputs
    """Digests, by input name, of what its settings name: by path, or by fingerprint in the store."""

    @cached_property
    def code_version(self) -> CodeVersion:
        """Computed once a process."""
        return code_version(self.module)

    def recipe(self, asset_key: str, config: StageConfig, inputs: Mapping[str, str], store: ArtifactStore) -> Recipe:
        """The recipe for these settings and these content digests by input name.

        Raises:
            InputError: what a setting names is not there.
            ValueError: the inputs are not those that this entry names.
        """
        if set(inputs) != {*self.assets, *self.sources}:
            raise ValueError(f"{self.name} is made from {[*self.assets, *self.sources]}, not from {sorted(inputs)}")
        version = self.code_version
        return Recipe(
            asset_key=asset_key,
            code_version=version.digest,
            libraries=version.libraries,
            config=config.semantic(),
            inputs={**inputs, **self.named_inputs(config, store)},
        )


MARKDOWN_DOCUMENTS = CachedAsset(
    "markdown_documents",
    "marin_assets.stages.html_to_markdown",
    settings.MarkdownDocumentsSettings,
    sources=("raw_html",),
)
NORMALIZED_DOCUMENTS = CachedAsset(
    "normalized_documents",
    "marin_assets.stages.normalize",
    settings.NormalizedDocumentsSettings,
    assets=("markdown_documents",),
)
DUPLICATE_PARAGRAPHS = CachedAsset(
    "duplicate_paragraphs",
    "marin_assets.stages.exact_paragraph_dedup",
    settings.DuplicateParagraphsSettings,
    assets=("normalized_documents",),
    named_inputs=_earlier_corpora,
)
CONSOLIDATED_DOCUMENTS = CachedAsset(
    "consolidated_documents",
    "marin_assets.stages.consolidate",
    settings.ConsolidatedDocumentsSettings,
    assets=("normalized_documents", "duplicate_paragraphs"),
)
TOKEN_CACHE = CachedAsset(
    "token_cache",
    "marin_assets.stages.tokenize",
    settings.TokenCacheSettings,
    assets=("consolidated_documents",),
    sources=("tokenizer",),
)
GPT2_MODEL = CachedAsset(
    "gpt2_model",
    "marin_assets.gpt2.trainer",
    settings.Gpt2ModelSettings,
    assets=("token_cache",),
    named_inputs=_initial_weights,
)

CACHED_ASSETS = (
    MARKDOWN_DOCUMENTS,
    NORMALIZED_DOCUMENTS,
    DUPLICATE_PARAGRAPHS,
    CONSOLIDATED_DOCUMENTS,
    TOKEN_CACHE,
    GPT2_MODEL,
)
"""In the order in which they are made."""
