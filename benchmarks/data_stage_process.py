"""One stage of ours in a process of its own: `python -m benchmarks.data_stage_process STAGE SETTINGS OUTPUT INPUT...`.

Belongs here: from folders to artifacts and back. SETTINGS is JSON; the inputs are folders that such a process wrote, or
that `write_manifest` was called for.
"""

import json
import sys
from pathlib import Path

from marin_assets.artifacts.artifact import Artifact
from marin_assets.artifacts.artifact_writer import ArtifactWriter
from marin_assets.artifacts.manifest import Manifest
from marin_assets_tests.artifacts import in_memory


def write_manifest(folder: Path, artifact: Artifact) -> None:
    (folder / "manifest.json").write_text(artifact.manifest.model_dump_json(), encoding="utf-8")


def read(folder: Path) -> Artifact:
    manifest = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    return Artifact(manifest, str(folder), lambda entry: folder / entry.name)


def main(stage: str, settings: dict[str, object], output: Path, inputs: list[Artifact]) -> None:
    out = in_memory.writer(output)
    stats = STAGES[stage](settings, out, inputs)
    write_manifest(output, in_memory.published(out, stats=stats))


def _normalize(settings: dict[str, object], out: ArtifactWriter, inputs: list[Artifact]) -> object:
    from marin_assets.stages.normalize import NormalizeConfig, normalize

    return normalize(inputs[0], NormalizeConfig.model_validate(settings), out)


def _dedup(settings: dict[str, object], out: ArtifactWriter, inputs: list[Artifact]) -> object:
    from marin_assets.stages.exact_paragraph_dedup import ExactParagraphDedupConfig, exact_paragraph_dedup

    return exact_paragraph_dedup(inputs[0], ExactParagraphDedupConfig.model_validate(settings), out)


def _consolidate(settings: dict[str, object], out: ArtifactWriter, inputs: list[Artifact]) -> object:
    from marin_assets.stages.consolidate import ConsolidateConfig, consolidate

    attributes = {"duplicate_paragraphs": inputs[1]}
    return consolidate(inputs[0], attributes, ConsolidateConfig.model_validate(settings), out)


STAGES = {"normalize": _normalize, "dedup": _dedup, "consolidate": _consolidate}


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]), [read(Path(folder)) for folder in sys.argv[4:]])
