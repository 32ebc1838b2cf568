"""Chunks of rows on several threads: each runs its operators alone, which beats sharing every small operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")


def side_by_side(work: Callable[[Item], None], items: Sequence[Item], device: torch.device) -> None:
    """Call `work` on every item, on as many threads as torch uses; what it writes must not overlap.

    Results cannot depend on the number of threads, as long as `work` depends on its item alone. On devices other
    than the CPU, whose operators are parallel by themselves, items are taken one after another.
    """
    threads = min(torch.get_num_threads(), len(items)) if device.type == "cpu" else 1
    if threads <= 1:
        for item in items:
            work(item)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, items):
                pass  # raises what a thread raised
    finally:
        torch.set_num_threads(before)  # the workers' calls reach libraries that count threads once per process
