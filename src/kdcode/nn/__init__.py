"""Layers for torch models: embeddings that learn codes in a task, and frozen ones over a coded table."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kdcode.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("torch layers", "torch") from error

from kdcode.nn.assignment import FixedAssignment, FreeAssignment, QueryAssignment
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_embedding_bag import CodedEmbeddingBag
from kdcode.nn.coded_embedding_view import CodedEmbeddingView
from kdcode.nn.coded_output import CodedOutput
from kdcode.nn.guidance import FullTableGuidance, TableGuidance
from kdcode.nn.kd_embedding import KDEmbedding
from kdcode.nn.optimizer import RowAdam, make_optimizer, parameter_groups
from kdcode.nn.temperature import TemperatureSchedule
from kdcode.nn.usage import CodeUsage, UsageMeter, revive

if TYPE_CHECKING:
    from kdcode.integrations.torch_models import compress_embeddings, freeze_embeddings

__all__ = [
    "CodeUsage",
    "CodedEmbedding",
    "CodedEmbeddingBag",
    "CodedEmbeddingView",
    "CodedOutput",
    "FixedAssignment",
    "FreeAssignment",
    "FullTableGuidance",
    "KDEmbedding",
    "QueryAssignment",
    "RowAdam",
    "TableGuidance",
    "TemperatureSchedule",
    "UsageMeter",
    "compress_embeddings",
    "freeze_embeddings",
    "make_optimizer",
    "parameter_groups",
    "revive",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in ("compress_embeddings", "freeze_embeddings"):  # at first use: layers alone need no learner
        return getattr(import_module("kdcode.integrations.torch_models"), name)
    raise AttributeError(f"module 'kdcode.nn' has no attribute {name!r}")
