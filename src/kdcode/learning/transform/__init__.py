"""Transform codes for a table: no gradient descent; a rotation, centroids and some tables follow from a sample.

sampling.py          the rows that a codec is made from
rotation.py          how many principal directions, in how many bits
plain_basis.py       no rotation, where coordinates are often zero
clusters.py          centroids, where rows lie in clusters
block_size.py        how many rows are coded together
level_statistics.py  tables of levels from levels
row_lengths.py       which lengths rows may have
draft.py             Draft: a codec on its way
fitting.py           the step, the lengths of rows and the tables, from a sample that is coded a few times
budget.py            how many bits blocks may have
beginning.py         best_beginning: the rotation and the centroids with which a sample loses least
design.py            design_codec: a codec for a size, and the error to expect
coding.py            all rows, within a number of bytes
learner.py           transform_coded: both, for the rows of one rank
"""

from kdcode.learning.transform.design import Design, design_codec
from kdcode.learning.transform.learner import CODING_STEPS, transform_coded

__all__ = ["CODING_STEPS", "Design", "design_codec", "transform_coded"]
