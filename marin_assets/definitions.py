"""Everything that Dagster loads.

`build_defs` makes the same pipeline with other resources or another executor, for tests and other code locations.
"""

from collections.abc import Mapping

import dagster as dg

from marin_assets import environment
from marin_assets.artifacts.io_manager import ArtifactIOManager
from marin_assets.defs import assets
from marin_assets.resources import Gpt2Trainer, HtmlSource, Tokenizer

ASSETS = (
    assets.raw_html,
    assets.markdown_documents,
    assets.normalized_documents,
    assets.duplicate_paragraphs,
    assets.consolidated_documents,
    assets.token_cache,
    assets.gpt2_model,
)


def build_defs(
    *,
    resources: Mapping[str, object] | None = None,
    executor: dg.ExecutorDefinition = dg.in_process_executor,
) -> dg.Definitions:
    """The pipeline, with some of its resources replaced. Stages use all cores themselves: steps need no processes."""
    return dg.Definitions(
        assets=ASSETS,
        resources={
            assets.ARTIFACTS: ArtifactIOManager(root=_setting(environment.PREFIX)),
            "html_source": HtmlSource(input=_setting(environment.INPUT)),
            "tokenizer": Tokenizer(tokenizer=_setting(environment.TOKENIZER)),
            "gpt2_trainer": Gpt2Trainer(),
            **(resources or {}),
        },
        executor=executor,
    )


def _setting(variable: environment.Variable) -> str:
    """Read from the environment when a run starts, so that the UI can name the variable; else the default."""
    return dg.EnvVar(variable.name) if variable.is_set else variable.default


defs = build_defs()
