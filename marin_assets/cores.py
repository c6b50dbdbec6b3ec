"""How many cores there are to use.

Belongs here: this one number. It stands alone so that code which depends on nothing else of `workers` does not count
as changed when `workers` does.
"""

import os


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
