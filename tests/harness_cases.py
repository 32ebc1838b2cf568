"""Cases that go wrong in every way that the harness of the fuzzers must notice."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
from case_worker import MIB, Case, WrongError


def harmless(case: Case) -> str:
    """Ends well, and in one of two ways."""
    (case.folder / "file").write_text("a case may write files")
    return case.random.choice(["refused", "same"])


def all_kinds(case: Case) -> str:
    """Case 1 spins, 2 dies, 3 raises, 4 fills memory, 5 reserves it, 6 accepts what is wrong, 7 ends its process."""
    if case.number == 1:
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue
    if case.number == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case.number == 3:
        return str({}[str(case.folder)])
    if case.number == 4:
        np.ones(60 * MIB, dtype=np.uint8)
    if case.number == 5:
        np.empty(200 * MIB, dtype=np.uint8)
    if case.number == 6:
        raise WrongError("a damaged file was accepted")
    if case.number == 7:
        os._exit(3)
    return harmless(case)


def waits(case: Case) -> str:
    """Case 0 waits for what never comes, and takes no CPU time."""
    if case.number == 0:
        time.sleep(3600)
    return harmless(case)


def stops_at_twenty(case: Case) -> str:
    """Case 20 ends the whole run, as Ctrl-C would, when first tried."""
    if case.number == 20 and "KDCODE_TEST_STOP" in os.environ:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(3600)
    return harmless(case)
