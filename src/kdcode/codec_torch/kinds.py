"""The torch module of each kind of codec."""

from __future__ import annotations

from typing import Any, overload

from kdcode.codec import Codec, CodewordCodec, CodewordSpec, Transform
from kdcode.codec.spec import BLOCK_SUM, LSTM
from kdcode.codec_torch.block_sum import BlockSumModule
from kdcode.codec_torch.lstm import LstmModule
from kdcode.codec_torch.module import CodecModule
from kdcode.codec_torch.transform import TransformModule

CODEC_MODULES: dict[str, type[CodecModule]] = {
    BLOCK_SUM: BlockSumModule,
    LSTM: LstmModule,
}
"""The modules of codecs with codewords; keys as in `kdcode.codec.CODECS`."""


def make_module(spec: CodewordSpec, **arguments: Any) -> CodecModule:  # noqa: ANN401 - passed on as they are
    """A module with fresh weights; arguments are those of `CodecModule`."""
    return CODEC_MODULES[spec.kind](spec, **arguments)


@overload
def module_of(codec: CodewordCodec) -> CodecModule: ...


@overload
def module_of(codec: Codec) -> CodecModule | TransformModule: ...


def module_of(codec: Codec) -> CodecModule | TransformModule:
    """The module of a codec, with float weights; codewords can be trained.

    `StoredCodec` keeps the stored bytes.
    """
    if isinstance(codec, Transform):
        return TransformModule(codec)
    assert isinstance(codec, CodewordCodec)  # noqa: S101 - for the type checker
    module = make_module(codec.spec)
    module.load_codec(codec)
    return module
