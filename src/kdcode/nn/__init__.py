"""Layers for torch models: a learnable KD embedding, and frozen ones over a coded table."""

from kdcode.learning.assignment import FixedAssignment, FreeAssignment
from kdcode.learning.composition import LinearComposition, LSTMComposition, ProductComposition
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_embedding_bag import CodedEmbeddingBag
from kdcode.nn.kd_embedding import KDEmbedding

__all__ = [
    "CodedEmbedding",
    "CodedEmbeddingBag",
    "FixedAssignment",
    "FreeAssignment",
    "KDEmbedding",
    "LSTMComposition",
    "LinearComposition",
    "ProductComposition",
]
