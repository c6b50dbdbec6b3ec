"""What the UI shows of an asset before it was ever made.

Belongs here: translations of our column descriptions to Dagster's. Does not: anything of one materialization.
"""

from collections.abc import Iterable, Mapping

import dagster as dg

from marin_assets.stages.tables import Column


def column_metadata(columns: Iterable[Column]) -> Mapping[str, dg.TableSchema]:
    """The column schema of an asset's main table, as asset metadata. A later column replaces an earlier namesake."""
    by_name = {one.name: one for one in columns}
    described = [dg.TableColumn(one.name, one.type, one.description) for one in by_name.values()]
    return {"dagster/column_schema": dg.TableSchema(columns=described)}
