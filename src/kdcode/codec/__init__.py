"""Codecs: how codes become vectors and vectors codes, and the bytes that this takes. numpy only.

A new kind of codec is a class here and a row in `kinds.CODECS`. It may have rows of variable length and positions that
depend on those before them: nothing outside of a codec reads packed rows or takes a code apart, `pack` and `unpack` do.
"""

from __future__ import annotations

from kdcode.codec.block_sum import BlockSum
from kdcode.codec.codec import Codec, RowDecoder
from kdcode.codec.codeword_rows import CodewordRows
from kdcode.codec.codeword_spec import CodewordSpec
from kdcode.codec.codewords import CodewordCodec
from kdcode.codec.kinds import CODECS, codec_from_tensors, make_codec, make_spec, spec_of
from kdcode.codec.lstm import Lstm
from kdcode.codec.sizes import SizeLimit, Sizes, memory_bytes
from kdcode.codec.spec import CodecSpec
from kdcode.codec.transform import Transform, TransformRowDecoder, TransformSpec

__all__ = [
    "CODECS",
    "BlockSum",
    "Codec",
    "CodecSpec",
    "CodewordCodec",
    "CodewordRows",
    "CodewordSpec",
    "Lstm",
    "RowDecoder",
    "SizeLimit",
    "Sizes",
    "Transform",
    "TransformRowDecoder",
    "TransformSpec",
    "codec_from_tensors",
    "make_codec",
    "make_spec",
    "memory_bytes",
    "spec_of",
]
