"""A process that computes the artifact of `sites.recipe()`, started by tests: it says where it is, and can be killed.

Usage: `python -m marin_assets_tests.artifacts.computing_process MODE SITE…`; it prints `computing`, then waits for a
line on its input, then prints `published` or `reused`.
MODE is the text that goes into the artifact's one file.
"""

import sys

from marin_assets.artifacts.store import ArtifactStore, Build
from marin_assets.errors import LeaseLostError
from marin_assets_tests.artifacts.sites import open_site, recipe, write_files


def main(text: str, arguments: list[str]) -> None:
    store = ArtifactStore(open_site(arguments))
    print("started", flush=True)
    build = store.begin(recipe())
    if not isinstance(build, Build):
        print("reused", flush=True)
        return
    try:
        write_files(build.out, {"early.txt": b"early"})
        print("computing", flush=True)
        sys.stdin.readline()
        write_files(build.out, {"part.txt": text.encode()})
        store.publish(build)
        print("published", flush=True)
    except LeaseLostError:
        store.abandon(build, keep=False)
        print("lost", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
