"""What the next step needs, made while this one computes.

Belongs here: one thread that is one item ahead.
"""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def one_ahead(make: Callable[[int], Item], first: int, end: int) -> Generator[Item]:
    """`make(first)` to `make(end - 1)`, in order; each is begun when the one before it is taken.

    What `make` raises is raised when its item is taken. Close the iterator to end its thread early.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="next batch") as thread:
        upcoming = thread.submit(make, first) if first < end else None
        for number in range(first + 1, end + 1):
            assert upcoming is not None
            item = upcoming.result()
            upcoming = thread.submit(make, number) if number < end else None
            yield item
