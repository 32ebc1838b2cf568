"""Codecs in torch: modules with the names of `kdcode.codec`, and code search in large batches.

Layers and learners are built on these; nothing here knows of either.
"""

from kdcode.codec_torch.block_sum import BlockSumModule
from kdcode.codec_torch.kinds import CODEC_MODULES, make_module, module_of
from kdcode.codec_torch.lstm import LstmModule
from kdcode.codec_torch.module import CodecModule
from kdcode.codec_torch.stored import StoredCodec
from kdcode.codec_torch.transform import TransformModule

__all__ = [
    "CODEC_MODULES",
    "BlockSumModule",
    "CodecModule",
    "LstmModule",
    "StoredCodec",
    "TransformModule",
    "make_module",
    "module_of",
]
