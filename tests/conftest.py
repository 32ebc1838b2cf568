"""Settings for all tests. No test may depend on how busy the machine is."""

from __future__ import annotations

import os
import signal

# What nohup and a shell in the background ignore, the commands that tests start would ignore too.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Tests and the commands they start run side by side: threads must not keep a core busy while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the serving half is tested with numpy and pytest alone as well
    pass
else:
    # The same examples in every run and no time limits, so that a failure is a failure on every machine. For other
    # examples: HYPOTHESIS_PROFILE=explore. A folder for all examples of a test is meant.
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
    settings.register_profile("repeatable", untimed, derandomize=True, database=None)
    settings.register_profile("explore", untimed)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

try:
    import torch
except ImportError:  # the serving half is tested without it as well
    pass
else:
    torch.set_num_threads(1)  # tests run side by side; small tensors gain nothing from threads
    torch.set_warn_always(True)  # not once a process: pytest makes errors of warnings


def pytest_terminal_summary(terminalreporter):
    """Say it in a line of its own where tests were skipped because there is no browser."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "no browser" in str(report.longrepr)]
    if skipped:
        why = skipped[0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"SKIPPED {len(skipped)} tests: {why}", yellow=True)
