"""Making what was written outlast a loss of power.

Belongs here: fsync of files and folders. Does not: in which order things are written.
"""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
