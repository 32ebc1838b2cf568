"""This process as torchrun has started it: with others that run the same command, or alone."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

_REFUSALS = (1, 2)
"""Exit codes of a command that refuses to go on."""
_PATIENCE = 10.0
"""Seconds that the first rank has for saying what is wrong, before another says it."""


def has_others() -> bool:
    """Whether torchrun has started this process with others."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_another_rank() -> bool:
    """Whether this is another rank than the first."""
    return has_others() and os.environ["RANK"] != "0"


def own_device(device: str) -> str:
    """The device of this rank: each has a CUDA device of its own on its machine, unless one is named by number."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" and has_others() else device


@contextmanager
def as_one_of_several() -> Iterator[None]:
    """A command on one of several ranks: ranks but the first are silent, and processes end without a last phase.

    Threads of torch.distributed may still hold tensors. One that lets go of them while the interpreter ends would abort
    the process (pytorch/pytorch#179291).
    """
    if not has_others():
        yield
        return
    said = io.StringIO()
    try:
        if is_another_rank():
            with redirect_stdout(io.StringIO()), redirect_stderr(said):
                yield
        else:
            yield
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if is_another_rank() and code in _REFUSALS:
            time.sleep(_PATIENCE)  # torchrun ends all ranks when one has failed, and the first has the same to say
            sys.stderr.write(said.getvalue())
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
