"""What the UI shows of an asset before it was ever made.

Belongs here: translations of our column descriptions to Dagster's. Does not: anything of one materialization.
"""

from collections.abc import Iterable, Mapping

import dagster as dg

from marin_assets.stages.tables import Column


def column_metadata(columns: Iterable[Column]) -> Mapping[str, dg.TableSchema]:
    """The column schema of an asset's main table, as asset metadata."""
    described = [dg.TableColumn(one.name, one.type, one.description) for one in columns]
    return {"dagster/column_schema": dg.TableSchema(columns=described)}
