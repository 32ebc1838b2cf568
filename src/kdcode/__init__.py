"""kdcode: embedding tables 20 to 100 times smaller, by K-way D-dimensional discrete codes.

The names below are resolved at first use, so that `import kdcode` stays quick and never imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kdcode._version import __version__

if TYPE_CHECKING:
    from kdcode import errors
    from kdcode.coded import CodedTable
    from kdcode.evaluation import evaluate, verify
    from kdcode.formats import read, write
    from kdcode.inputs import as_table
    from kdcode.learning import compress, plan
    from kdcode.options import AdditiveOptions, CompressOptions, EncoderOptions, GradientOptions, RandomOptions
    from kdcode.storage import load, save
    from kdcode.table import VectorTable

_HOME = {
    "AdditiveOptions": "kdcode.options",
    "CodedTable": "kdcode.coded",
    "CompressOptions": "kdcode.options",
    "EncoderOptions": "kdcode.options",
    "GradientOptions": "kdcode.options",
    "RandomOptions": "kdcode.options",
    "VectorTable": "kdcode.table",
    "as_table": "kdcode.inputs",
    "compress": "kdcode.learning",
    "evaluate": "kdcode.evaluation",
    "load": "kdcode.storage",
    "plan": "kdcode.learning",
    "read": "kdcode.formats",
    "save": "kdcode.storage",
    "verify": "kdcode.evaluation",
    "write": "kdcode.formats",
}
_PACKAGES = ("codec", "data", "errors", "evaluation", "formats", "learning", "nn")

__all__ = [
    "AdditiveOptions",
    "CodedTable",
    "CompressOptions",
    "EncoderOptions",
    "GradientOptions",
    "RandomOptions",
    "VectorTable",
    "__version__",
    "as_table",
    "compress",
    "errors",
    "evaluate",
    "load",
    "plan",
    "read",
    "save",
    "verify",
    "write",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return import_module(f"kdcode.{name}")
    raise AttributeError(f"module 'kdcode' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
