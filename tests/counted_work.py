"""Work counted, for tests of what must be quick: counts are the same on every machine, however busy it is."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any


def calls_made(run: Callable[[], Any]) -> int:
    """How many functions are called, of Python and of C, in this thread."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def largest_tensor_made(run: Callable[[], Any]) -> int:
    """Elements of the largest tensor that torch's operators make in this thread."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, operator: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = operator(*args, **(kwargs or {}))
            for each in made if isinstance(made, tuple | list) else [made]:
                if isinstance(each, torch.Tensor):
                    if any(each is given for given in args):  # changed in place
                        continue
                    held = each._values() if each.is_sparse else each  # the shape of a sparse tensor says nothing
                    self.largest = max(self.largest, held.numel())
            return made

    with Watching() as watching:
        run()
    return watching.largest


def most_memory(run: Callable[[], Any]) -> int:
    """Bytes of Python and numpy that are held at once, at most, while something runs."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
