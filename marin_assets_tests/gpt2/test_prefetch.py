"""One item is made while the one before it is used."""

import threading

import pytest

from marin_assets.gpt2.prefetch import one_ahead


def test_items_come_in_order() -> None:
    assert list(one_ahead(lambda number: number * 10, 3, 7)) == [30, 40, 50, 60]
    assert list(one_ahead(lambda number: number, 3, 3)) == []


def test_the_next_item_is_made_while_this_one_is_used() -> None:
    made = [threading.Event() for _ in range(3)]

    def make(number: int) -> int:
        made[number].set()
        return number

    items = one_ahead(make, 0, 3)
    assert next(items) == 0
    assert made[1].wait(timeout=10)
    assert not made[2].is_set()
    items.close()


def test_what_making_raises_is_raised_when_the_item_is_taken() -> None:
    def make(number: int) -> int:
        if number == 1:
            raise ValueError("no item 1")
        return number

    items = one_ahead(make, 0, 3)
    assert next(items) == 0
    with pytest.raises(ValueError, match="no item 1"):
        next(items)


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    items = one_ahead(lambda number: number, 0, 100)
    next(items)
    items.close()
    assert threading.active_count() == before
