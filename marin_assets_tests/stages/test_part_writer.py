"""A part written row by row is the part written at once, byte for byte."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages import part_writer, tables
from marin_assets.stages.part_writer import PartWriter
from marin_assets.stages.tables import Column, polars_schema, write_part

_COLUMNS = (Column("text", "string", ""), Column("number", "uint64", ""))
_ROWS = st.lists(st.tuples(st.none() | st.text(st.characters(codec="utf-8"), max_size=60), st.integers(0, 99)))


@settings(deadline=None, max_examples=40)
@given(rows=_ROWS, batch_bytes=st.sampled_from([1, 100, 1000, 1 << 20]))
def test_batches_do_not_show(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]], batch_bytes: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "part_writer"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_writer, "BATCH_BYTES", batch_bytes)
        patch.setattr(tables, "ROW_GROUP_BYTES", 300)
        part = PartWriter(folder / "batches", _COLUMNS, folder / "scratch")
        for row in rows:
            part.append(row)
        part.finish()
        write_part(folder / "whole", pl.DataFrame(rows, schema=polars_schema(_COLUMNS), orient="row"), _COLUMNS)
    assert (folder / "batches").read_bytes() == (folder / "whole").read_bytes()
    assert not list((folder / "scratch").glob("*"))
