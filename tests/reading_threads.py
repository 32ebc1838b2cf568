"""Several threads that do the same at once, for tests of what they share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Call `work` with each number below `count`, in threads that begin together and take turns often.

    What one of them raises is raised here.
    """
    together = Barrier(count)

    def begin(number: int) -> None:
        together.wait(60)
        work(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(begin, range(count)))
    finally:
        sys.setswitchinterval(interval)
