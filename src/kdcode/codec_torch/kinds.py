"""The torch module of each kind of codec."""

from __future__ import annotations

from typing import Any

from kdcode.codec import Codec, CodecSpec
from kdcode.codec.spec import BLOCK_SUM, LSTM, TRANSFORM
from kdcode.codec_torch.block_sum import BlockSumModule
from kdcode.codec_torch.lstm import LstmModule
from kdcode.codec_torch.module import CodecModule
from kdcode.codec_torch.transform import TransformModule

CODEC_MODULES: dict[str, type[CodecModule]] = {
    BLOCK_SUM: BlockSumModule,
    LSTM: LstmModule,
    TRANSFORM: TransformModule,
}
"""The one table of kinds in torch; keys as in `kdcode.codec.CODECS`."""


def make_module(spec: CodecSpec, **arguments: Any) -> CodecModule:  # noqa: ANN401 - passed on as they are
    """A module with fresh weights; arguments are those of `CodecModule`."""
    return CODEC_MODULES[spec.kind](spec, **arguments)


def module_of(codec: Codec) -> CodecModule:
    """The torch twin of a codec, with float weights that can be trained, but for those of a transform codec.

    `StoredCodec` keeps the stored bytes.
    """
    module = make_module(codec.spec)
    module.load_codec(codec)
    return module
