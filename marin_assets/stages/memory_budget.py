"""How a stage's memory budget and the size of its input decide how many workers it starts.

Belongs here: the arithmetic. Does not: what the workers do. Nothing in here can change what a stage produces.
"""

from marin_assets.cores import available_cores

BYTES_WORTH_A_WORKER = 16 << 20
"""Starting a worker process takes about as long as working through this much."""


def affordable_workers(workers: int, *, work_bytes: int, memory_budget: int, bytes_per_worker: int) -> int:
    """Worker processes to start: at least one, whatever the budget.

    Args:
        workers: the setting; 0 means every core.
        work_bytes: size of all shards together.
        memory_budget: bytes that all workers together may hold.
        bytes_per_worker: what one worker holds at its peak.
    """
    wanted = workers or available_cores()
    useful = work_bytes // BYTES_WORTH_A_WORKER
    return max(1, min(wanted, useful, memory_budget // max(1, bytes_per_worker)))
