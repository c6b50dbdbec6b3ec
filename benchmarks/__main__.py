"""`python -m benchmarks [NAME ...] [OPTION ...]`: measures, and writes what it found into `benchmarks/RESULTS.md`.

Belongs here: which benchmarks there are. Each gives its part of the page as Markdown.
"""

import argparse
import os
import sys
from collections.abc import Callable

from benchmarks.results_page import replace_section


def _data() -> str:
    from benchmarks.data_stages import measure

    return measure()


def _extraction() -> str:
    from benchmarks.extraction import measure

    return measure()


def _tokenization() -> str:
    from benchmarks.tokenization import measure

    return measure()


def _training() -> str:
    from benchmarks.training import measure

    return measure()


BENCHMARKS: dict[str, Callable[[], str]] = {
    "data": _data,
    "extraction": _extraction,
    "tokenization": _tokenization,
    "training": _training,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(BENCHMARKS)}; all of them")
    parser.add_argument("--pages", metavar="DIR", help="pages with their gold texts, for the extraction benchmark")
    parser.add_argument("--megabytes", metavar="N", help="size of generated corpora; 1000")
    parser.add_argument("--datatrove-python", metavar="PATH", help="of an environment that has datatrove")
    options = vars(parser.parse_args(arguments))
    names: list[str] = options.pop("names")
    os.environ.update({f"BENCHMARK_{name.upper()}": value for name, value in options.items() if value is not None})
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        section = BENCHMARKS[name]()
        print(section)
        replace_section(name, section)


if __name__ == "__main__":
    main(sys.argv[1:])
