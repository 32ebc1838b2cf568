"""CodedEmbedding: a coded table where an `nn.Embedding` was."""

from __future__ import annotations

from kdcode.nn.coded_layer import CodedLayer


class CodedEmbedding(CodedLayer):
    """Called like `nn.Embedding`; holds packed codes and a few codewords in place of the table.

    In the form "packed" it takes as many bytes as codes and codec take in the file: `layer.nbytes` is
    `coded.sizes.embedding`. `layer.config` and `layer.state_dict()` are all that is needed to build it again:

        other = CodedEmbedding.from_config(layer.config)
        other.load_state_dict(layer.state_dict())

    Args:
        coded: the table, or the path of a .kdc file; codes and weights are copied.
        padding_idx: row whose vector is zero; -1 is the last.
        form: "packed" (smallest) or "unpacked" (an integer for each position); see `CodedLayer`.
        trainable: whether codewords and composition are trained; codes stay as they are.
        device: where the layer lives.
        dtype: type of the vectors, as in `nn.Embedding`; torch's default type if None.
        expand: "float32", "bfloat16" or "int8": the type that all vectors are decoded to once and kept in, where they
            take no more than `expand_below`; None decodes at every call.
        expand_below: a size like "64MB".
    """
