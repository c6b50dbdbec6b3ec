"""Normalized documents for the tests of later stages."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from marin_assets.artifacts.artifact import Artifact
from marin_assets.stages import normalize
from marin_assets.stages.tables import column_types, part_name, polars_schema, write_part
from marin_assets_tests.artifacts import in_memory


def name(number: int) -> str:
    """An id that sorts as its number."""
    return f"{number:032x}"


def published(directory: Path, *parts: Sequence[str]) -> Artifact:
    """Documents with the ids 0, 1, 2 … through all parts."""
    out = in_memory.writer(directory)
    number = 0
    for index, texts in enumerate(parts):
        rows = [
            {"id": name(number + position), "source_id": f"s{position}", "title": "é", "text": text}
            for position, text in enumerate(texts)
        ]
        number += len(texts)
        frame = pl.DataFrame(rows, schema=polars_schema(normalize.COLUMNS))
        write_part(out.path(part_name(index, len(parts))), frame, normalize.COLUMNS)
        out.add(part_name(index, len(parts)), rows=len(texts))
    out.columns = column_types(normalize.COLUMNS)
    return in_memory.published(out, "normalized_documents")
