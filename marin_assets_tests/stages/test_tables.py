"""How parts are written."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from marin_assets.artifacts.file_digest import file_digest
from marin_assets.errors import InputError
from marin_assets.stages import tables
from marin_assets.stages.tables import Column, batches, require_columns, write_part

COLUMNS = (Column("id", "string", "id"), Column("text", "string", "text"), Column("dup_spans", "spans", "spans"))


def frame(rows: int, length: int = 10) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [f"{number:032x}" for number in range(rows)],
            "text": [f"{number} é" * length for number in range(rows)],
            "dup_spans": [[{"start": 0, "end": end} for end in range(number % 3)] for number in range(rows)],
        }
    )


def test_a_part_has_its_columns_and_types_even_when_empty(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    write_part(path, frame(3).clear(), COLUMNS)
    assert pl.read_parquet_schema(path) == tables.polars_schema(COLUMNS)


def test_the_bytes_do_not_depend_on_how_the_frame_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 5000)
    whole = frame(100)
    frames = [whole, pl.concat([whole[:7], whole[7:]], rechunk=False), pl.concat([whole, whole])[100:]]
    for index, held in enumerate(frames):
        write_part(tmp_path / f"{index}", held, COLUMNS)
    assert len({file_digest(path) for path in tmp_path.iterdir()}) == 1


def test_the_bytes_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from marin_assets.stages import tables\n"
        "from marin_assets_tests.stages.test_tables import COLUMNS, frame\n"
        "tables.ROW_GROUP_BYTES = 200_000; tables.write_part(Path(sys.argv[1]), frame(3000, 40), COLUMNS)"
    )
    for threads in ("1", "4"):
        environment = {**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", script, tmp_path / threads], env=environment, check=True)
    assert file_digest(tmp_path / "1") == file_digest(tmp_path / "4")


def test_row_groups_are_bounded_and_a_large_row_does_not_split_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP_BYTES", 1000)
    sizes = pl.Series([100] * 64, dtype=pl.UInt64)
    assert tables.rows_per_group(sizes) == 8
    sizes[3] = 5000
    assert tables.rows_per_group(sizes) == 8
    assert tables.rows_per_group(sizes.clear()) == 1


def test_batches_cover_all_rows_in_order() -> None:
    held = frame(50)
    found = list(batches(held, 300))
    assert pl.concat(found).equals(held)
    assert len(found) > 5
    assert [len(batch) for batch in batches(held, 1)] == [1] * 50
    assert list(batches(held.clear(), 10)) == []


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(InputError, match=r"x.parquet cannot be read as Parquet"):
        require_columns(tmp_path / "x.parquet", ["id"])
