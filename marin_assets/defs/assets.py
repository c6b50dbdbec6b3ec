"""The graph: one external asset and six cached ones, from raw HTML to a model.

Belongs here: what each asset is, is made from, and which stage makes it. Does not: how (`stages`, `gpt2`), or when it
is reused (`caching`).
"""

import dagster as dg

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.io_manager import ArtifactIOManager
from marin_assets.defs import recipes, settings
from marin_assets.defs.caching import reuse_or_compute
from marin_assets.defs.descriptions import column_metadata
from marin_assets.defs.earlier_corpora import earlier_corpora
from marin_assets.defs.model_preview import model_preview
from marin_assets.defs.training_progress import observe_training
from marin_assets.gpt2.config import TrainingConfig
from marin_assets.resources import Gpt2Trainer, HtmlSource, Tokenizer
from marin_assets.stages import consolidate, exact_paragraph_dedup, html_to_markdown, normalize, tokenize

ARTIFACTS = "artifacts"
"""Resource key of the I/O manager, which every asset uses."""

GROUP = "html_to_gpt2"
"""One group, so that the UI shows the assets themselves and not folded groups."""

raw_html = dg.AssetSpec(
    "raw_html",
    group_name=GROUP,
    kinds={"html"},
    description="The pages as they were collected, below `MARIN_INPUT`. Made outside of this pipeline.",
)


@dg.asset(
    deps=[raw_html],
    group_name=GROUP,
    kinds={"markdown", "parquet"},
    io_manager_key=ARTIFACTS,
    code_version=str(recipes.MARKDOWN_DOCUMENTS.code_version),
    metadata=column_metadata(html_to_markdown.COLUMNS),
)
def markdown_documents(
    context: dg.AssetExecutionContext,
    config: settings.MarkdownDocumentsSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    html_source: HtmlSource,
) -> dg.MaterializeResult:
    """Main content of each page as Markdown, one row a page; pages that fail keep a row with status and reason."""
    pages = html_source.pages()
    return reuse_or_compute(
        context,
        recipes.MARKDOWN_DOCUMENTS,
        config,
        artifacts.store(),
        {"raw_html": pages.digest},
        lambda out: html_to_markdown.html_to_markdown(pages, config.of(html_to_markdown.HtmlToMarkdownConfig), out),
    )


@dg.asset(
    group_name=GROUP,
    kinds={"parquet"},
    io_manager_key=ARTIFACTS,
    code_version=str(recipes.NORMALIZED_DOCUMENTS.code_version),
    metadata=column_metadata(normalize.COLUMNS),
)
def normalized_documents(
    context: dg.AssetExecutionContext,
    config: settings.NormalizedDocumentsSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    markdown_documents: Artifact,
) -> dg.MaterializeResult:
    """Canonical documents: clean text, content-addressed ids, sorted by id, exact duplicates set aside."""
    return reuse_or_compute(
        context,
        recipes.NORMALIZED_DOCUMENTS,
        config,
        artifacts.store(),
        {"markdown_documents": markdown_documents.content_digest},
        lambda out: normalize.normalize(markdown_documents, config.of(normalize.NormalizeConfig), out),
    )


@dg.asset(
    group_name=GROUP,
    kinds={"parquet"},
    io_manager_key=ARTIFACTS,
    code_version=str(recipes.DUPLICATE_PARAGRAPHS.code_version),
    metadata=column_metadata(exact_paragraph_dedup.COLUMNS),
)
def duplicate_paragraphs(
    context: dg.AssetExecutionContext,
    config: settings.DuplicateParagraphsSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    normalized_documents: Artifact,
) -> dg.MaterializeResult:
    """Byte spans of every paragraph that was seen before, one row a document of `normalized_documents`."""
    return reuse_or_compute(
        context,
        recipes.DUPLICATE_PARAGRAPHS,
        config,
        artifacts.store(),
        {"normalized_documents": normalized_documents.content_digest},
        lambda out: exact_paragraph_dedup.exact_paragraph_dedup(
            normalized_documents,
            config.of(exact_paragraph_dedup.ExactParagraphDedupConfig),
            out,
            earlier=earlier_corpora(artifacts.store(), config.dedup_against),
        ),
    )


@dg.asset(
    group_name=GROUP,
    kinds={"parquet"},
    io_manager_key=ARTIFACTS,
    code_version=str(recipes.CONSOLIDATED_DOCUMENTS.code_version),
    metadata=column_metadata((*normalize.COLUMNS, *consolidate.COLUMNS)),
)
def consolidated_documents(
    context: dg.AssetExecutionContext,
    config: settings.ConsolidatedDocumentsSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    normalized_documents: Artifact,
    duplicate_paragraphs: Artifact,
) -> dg.MaterializeResult:
    """The documents with every repeated paragraph cut out: the training text."""
    attributes = {"duplicate_paragraphs": duplicate_paragraphs}
    return reuse_or_compute(
        context,
        recipes.CONSOLIDATED_DOCUMENTS,
        config,
        artifacts.store(),
        {
            "normalized_documents": normalized_documents.content_digest,
            "duplicate_paragraphs": duplicate_paragraphs.content_digest,
        },
        lambda out: consolidate.consolidate(
            normalized_documents, attributes, config.of(consolidate.ConsolidateConfig), out
        ),
    )


@dg.asset(
    group_name=GROUP,
    kinds={"zarr"},
    io_manager_key=ARTIFACTS,
    code_version=str(recipes.TOKEN_CACHE.code_version),
)
def token_cache(
    context: dg.AssetExecutionContext,
    config: settings.TokenCacheSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    tokenizer: Tokenizer,
    consolidated_documents: Artifact,
) -> dg.MaterializeResult:
    """Token ids of all documents, train and validation, in a cache that Levanter reads as well."""
    file = tokenizer.file()
    return reuse_or_compute(
        context,
        recipes.TOKEN_CACHE,
        config,
        artifacts.store(),
        {"consolidated_documents": consolidated_documents.content_digest, "tokenizer": file.digest},
        lambda out: tokenize.tokenize(consolidated_documents, file, config.of(tokenize.TokenizeConfig), out),
    )


@dg.asset(
    group_name=GROUP,
    kinds={"pytorch", "huggingface"},
    io_manager_key=ARTIFACTS,
    code_version=str(recipes.GPT2_MODEL.code_version),
)
def gpt2_model(
    context: dg.AssetExecutionContext,
    config: settings.Gpt2ModelSettings,
    artifacts: dg.ResourceParam[ArtifactIOManager],
    gpt2_trainer: Gpt2Trainer,
    token_cache: Artifact,
) -> dg.MaterializeResult:
    """A trained GPT-2: checkpoints, an export that Transformers loads, metrics, samples."""
    return reuse_or_compute(
        context,
        recipes.GPT2_MODEL,
        config,
        artifacts.store(),
        {"token_cache": token_cache.content_digest},
        lambda out: gpt2_trainer.train(
            context,
            token_cache,
            config.of(TrainingConfig),
            out,
            observe_training(context, steps=config.steps, every=config.observe_every),
        ),
        resumable=True,
        preview=model_preview,
    )
