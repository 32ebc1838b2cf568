"""Layers for torch models: a learnable KD embedding, and frozen ones over a coded table."""

from kdcode.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("torch layers", "learn") from error

from kdcode.nn.assignment import FixedAssignment, FreeAssignment
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_embedding_bag import CodedEmbeddingBag
from kdcode.nn.kd_embedding import KDEmbedding

__all__ = ["CodedEmbedding", "CodedEmbeddingBag", "FixedAssignment", "FreeAssignment", "KDEmbedding"]
