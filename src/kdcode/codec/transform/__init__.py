"""Transform codes: rotate, quantize each coordinate along a trellis, entropy-code each block of rows.

Near the rate-distortion limit of a Gaussian at a few bits a coordinate, where sums of codewords would need too many
codewords. The core reads and writes levels; see docs/format.md for what they are.

spec.py           the shape of a codec
level_tables.py   how often each level is expected
rotation.py       a rotation as a product of rounded Householder reflections
centroids.py      points that rows are measured from
rows.py           rows of blocks, in memory or in a file
decoder.py        such rows to vectors and codes
blocks.py         what an encoder makes
codes.py          codes as rows of integers
codec.py          the codec
"""

from kdcode.codec.transform.blocks import EncodedBlocks
from kdcode.codec.transform.codec import Transform
from kdcode.codec.transform.codes import signed
from kdcode.codec.transform.decoder import TransformRowDecoder
from kdcode.codec.transform.level_tables import LevelTables, fitted_tables
from kdcode.codec.transform.rows import BlockRows
from kdcode.codec.transform.spec import TransformSpec

__all__ = [
    "BlockRows",
    "EncodedBlocks",
    "LevelTables",
    "Transform",
    "TransformRowDecoder",
    "TransformSpec",
    "fitted_tables",
    "signed",
]
