"""refuse_recording: layers that numpy decodes are no part of an exported model."""

from __future__ import annotations

import torch
from torch._C import _get_tracing_state

from kdcode.errors import OptionError


def refuse_recording() -> None:
    """Refuse to be part of a graph that is recorded to run elsewhere, where there is no numpy.

    `torch.compile` is another matter: it leaves such a layer out of its graph.

    Raises:
        OptionError: by torch.export or torch.jit.trace.
    """
    is_exporting = getattr(torch.compiler, "is_exporting", None)
    if (is_exporting is not None and is_exporting()) or _get_tracing_state() is not None:
        raise OptionError(
            "form: packed transform codes are decoded by numpy, which is no part of an exported model; make the layer "
            'with form="unpacked"'
        )
