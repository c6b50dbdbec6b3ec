"""`python -m benchmarks [NAME ...]`: measures, and writes what it found into `benchmarks/RESULTS.md`.

Belongs here: which benchmarks there are. Each gives its part of the page as Markdown.
"""

import sys
from collections.abc import Callable

from benchmarks.results_page import replace_section


def _tokenization() -> str:
    from benchmarks.tokenization import measure

    return measure()


def _training() -> str:
    from benchmarks.training import measure

    return measure()


BENCHMARKS: dict[str, Callable[[], str]] = {"tokenization": _tokenization, "training": _training}


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        section = BENCHMARKS[name]()
        print(section)
        replace_section(name, section)


if __name__ == "__main__":
    main(sys.argv[1:])
