"""kdcode: embedding tables 20 to 100 times smaller, by K-way D-dimensional discrete codes.

The names below are resolved at first use, so that `import kdcode` stays quick and never imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kdcode._version import __version__

if TYPE_CHECKING:
    from kdcode import errors
    from kdcode.bulk import append, assemble, encode_parts
    from kdcode.bulk.file_compression import compress_file
    from kdcode.coded import CodedTable
    from kdcode.comparison import compare
    from kdcode.evaluation import evaluate, verify
    from kdcode.inputs import as_table
    from kdcode.integrations.onnx_export import export_onnx
    from kdcode.integrations.torch_models import compress_embeddings
    from kdcode.io import read, write
    from kdcode.learning import compress, learn_codebook, plan
    from kdcode.options import (
        AdditiveOptions,
        Algorithm1Options,
        CompressOptions,
        EncoderOptions,
        GradientOptions,
        RandomOptions,
    )
    from kdcode.report import make_report
    from kdcode.storage import load, save
    from kdcode.table import VectorTable

_HOME = {
    "AdditiveOptions": "kdcode.options",
    "CodedTable": "kdcode.coded",
    "CompressOptions": "kdcode.options",
    "EncoderOptions": "kdcode.options",
    "Algorithm1Options": "kdcode.options",
    "GradientOptions": "kdcode.options",
    "RandomOptions": "kdcode.options",
    "VectorTable": "kdcode.table",
    "append": "kdcode.bulk",
    "as_table": "kdcode.inputs",
    "assemble": "kdcode.bulk",
    "compare": "kdcode.comparison",
    "compress": "kdcode.learning",
    "compress_embeddings": "kdcode.integrations.torch_models",
    "compress_file": "kdcode.bulk.file_compression",
    "encode_parts": "kdcode.bulk",
    "evaluate": "kdcode.evaluation",
    "export_onnx": "kdcode.integrations.onnx_export",
    "learn_codebook": "kdcode.learning",
    "load": "kdcode.storage",
    "make_report": "kdcode.report",
    "plan": "kdcode.learning",
    "read": "kdcode.io",
    "save": "kdcode.storage",
    "verify": "kdcode.evaluation",
    "write": "kdcode.io",
}
_PACKAGES = (
    "bulk",
    "codec",
    "comparison",
    "data",
    "errors",
    "evaluation",
    "formats",
    "integrations",
    "learning",
    "nn",
    "report",
)

__all__ = [
    "AdditiveOptions",
    "Algorithm1Options",
    "CodedTable",
    "CompressOptions",
    "EncoderOptions",
    "GradientOptions",
    "RandomOptions",
    "VectorTable",
    "__version__",
    "append",
    "as_table",
    "assemble",
    "compare",
    "compress",
    "compress_embeddings",
    "compress_file",
    "encode_parts",
    "errors",
    "evaluate",
    "export_onnx",
    "learn_codebook",
    "load",
    "make_report",
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
