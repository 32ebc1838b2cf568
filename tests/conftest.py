"""Settings for all tests."""

from __future__ import annotations

import os

# Tests and the commands they start run side by side: threads that wait must not keep a core busy.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    import torch
except ImportError:  # the serving half is tested without it as well
    pass
else:
    torch.set_num_threads(1)  # tests run side by side; small tensors gain nothing from threads
    torch.set_warn_always(True)  # not once a process: pytest makes errors of warnings
