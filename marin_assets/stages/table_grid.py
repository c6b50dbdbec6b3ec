"""Gives each cell of an HTML table its column, with empty cells where others reach across.

GitHub's tables know no spans: what stands right of a wide cell, or below a tall one, would change its column.

Belongs here: the columns of one table. Does not: which tables are data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_MOST_COLUMNS = 50
_MOST_ROWS = 1000
"""A cell reaches no farther, so that no page grows to many times its size."""


def fill_spans(table: HtmlElement) -> None:
    """Put empty cells in a table's rows where `colspan` and `rowspan` say that other cells are."""
    from_above: dict[int, int] = {}  # column: how many more rows a cell above reaches into
    for row in table.iter("tr"):
        if next(row.iterancestors("table"), None) is not table:
            continue
        below = {column: rows - 1 for column, rows in from_above.items() if rows > 1}
        column = owed = 0
        for cell in [cell for cell in row if cell.tag in {"td", "th"}]:
            while from_above.get(column):
                owed, column = owed + 1, column + 1
            for _ in range(owed):
                cell.addprevious(cell.makeelement(cell.tag))
            width, height = _span(cell, "colspan", _MOST_COLUMNS), _span(cell, "rowspan", _MOST_ROWS)
            if height > 1:
                below |= dict.fromkeys(range(column, column + width), height - 1)
            # Empty cells at a row's end need not be there, so they wait for the next cell.
            owed, column = width - 1, column + width
        from_above = below


def _span(cell: HtmlElement, name: str, most: int) -> int:
    value = (cell.get(name) or "").strip()
    return max(1, min(int(value), most)) if value.isascii() and value.isdigit() else 1
