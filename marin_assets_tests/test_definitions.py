"""What Dagster loads: the graph, and what loading it costs."""

import json
import subprocess
import sys

import dagster as dg

from marin_assets.definitions import build_defs, defs
from marin_assets_tests.project import ASSETS

HEAVY = ("torch", "polars", "trafilatura", "boto3", "dagster_aws", "resiliparse", "tensorstore", "tokenizers")

UPSTREAM = {
    "raw_html": [],
    "markdown_documents": ["raw_html"],
    "normalized_documents": ["markdown_documents"],
    "duplicate_paragraphs": ["normalized_documents"],
    "consolidated_documents": ["duplicate_paragraphs", "normalized_documents"],
    "token_cache": ["consolidated_documents"],
    "gpt2_model": ["token_cache"],
}


def test_definitions_are_valid() -> None:
    dg.Definitions.validate_loadable(defs)


def test_the_graph_is_the_documented_one() -> None:
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}

    upstream = {name: sorted(dep.asset_key.to_user_string() for dep in spec.deps) for name, spec in specs.items()}
    assert upstream == UPSTREAM


def test_every_asset_says_what_it_is_and_has_a_computed_code_version() -> None:
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}

    assert all(spec.description for spec in specs.values())
    versions = [specs[name].code_version for name in ASSETS]
    assert all(versions)
    assert len(set(versions)) == len(ASSETS)


def test_a_resource_can_be_replaced() -> None:
    replaced = build_defs(resources={"tokenizer": "another"})

    assert (replaced.resources or {})["tokenizer"] == "another"
    assert (replaced.resources or {}).keys() == (defs.resources or {}).keys()


def test_loading_the_definitions_imports_no_heavy_library() -> None:
    script = "import json, sys, marin_assets.definitions; print(json.dumps(sorted(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    loaded = set(json.loads(done.stdout))
    assert "marin_assets.stages.normalize" in loaded
    assert not loaded.intersection(HEAVY)
