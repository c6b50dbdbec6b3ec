"""`python -m benchmarks [NAME [OPTION ...]]`: measures, and prints what it found as Markdown.

Belongs here: which benchmarks there are. Each is a module whose `main` takes options and gives its section.
"""

import importlib
import sys

BENCHMARKS = {"data": "benchmarks.data_stages"}


def main(arguments: list[str]) -> None:
    names = arguments[:1] or list(BENCHMARKS)
    if names[0] not in BENCHMARKS:
        sys.exit(f"there is no benchmark {names[0]!r}; there are {', '.join(BENCHMARKS)}")
    for name in names:
        print(importlib.import_module(BENCHMARKS[name]).main(arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
