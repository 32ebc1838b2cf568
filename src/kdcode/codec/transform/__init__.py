"""Transform codes: rotate, quantize each coordinate along a trellis, entropy-code each row.

Near the rate-distortion limit of a Gaussian, where sums of codewords would need too many codewords: at a few bits a
coordinate. The parts, from the bottom:

trellis.py        two interleaved scalar quantizers, and the state machine that chooses between them
level_tables.py   how often each level is expected, and what it stands for
range_coder.py    arithmetic coding of many rows at once
centroids.py      what rows are measured from
row_coder.py      levels to the bytes of a row and back
reflections.py    a rotation as a product of rounded Householder reflections
viterbi.py        the best levels of a row
row_search.py     the levels and the length of each row
row_index.py      where rows of different lengths begin
ragged_writer.py  such rows on their way into a file
ragged_rows.py    such rows, any of which can be read alone
row_blocks.py     codes of rows, and of blocks of narrow rows that are coded together
blocked_rows.py   the rows of such blocks, in a table and on their way into a file
block_encoding.py  vectors to codes of blocks
row_forms.py      which of these forms the rows of a codec have
spec.py, codec.py  the codec
compiled_levels.py  the same loops as compiled code
"""

from kdcode.codec.transform.codec import Transform
from kdcode.codec.transform.level_tables import LevelTables, fitted_tables
from kdcode.codec.transform.ragged_rows import RaggedRows
from kdcode.codec.transform.ragged_writer import RaggedWriter
from kdcode.codec.transform.spec import TransformSpec

__all__ = ["LevelTables", "RaggedRows", "RaggedWriter", "Transform", "TransformSpec", "fitted_tables"]
