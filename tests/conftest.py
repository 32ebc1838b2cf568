"""Settings for all tests."""

from __future__ import annotations

try:
    import torch
except ImportError:  # the serving half is tested without it as well
    pass
else:
    torch.set_num_threads(1)  # tests run side by side; small tensors gain nothing from threads
