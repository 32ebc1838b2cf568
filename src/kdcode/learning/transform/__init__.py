"""Transform codes for a table: nothing is learned by descent; a rotation and some tables follow from a sample.

rotation.py          how many principal directions, in how many bits
level_statistics.py  tables of levels from levels
draft.py             Draft: a codec on its way
fitting.py           the step, the lengths of rows and the tables, from a sample that is coded a few times
design.py            design_codec: a codec for a size, and the error to expect
coding.py            all rows, within a number of bytes
learner.py           transform_coded: both, for the rows of one rank
"""

from kdcode.learning.transform.design import Design, design_codec
from kdcode.learning.transform.learner import CODING_STEPS, transform_coded

__all__ = ["CODING_STEPS", "Design", "design_codec", "transform_coded"]
