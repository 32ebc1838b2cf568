"""Transform codes for a table: no gradient descent; a rotation, centroids and some tables follow from a sample.

sampling.py          the rows that a codec is made from, and how many are coded together
rotation.py          how many principal directions, in how many bits
plain_basis.py       no rotation, where coordinates are often zero
clusters.py          centroids, where rows lie in clusters
space.py             the rotation and the centroids with which a sample loses least
level_statistics.py  tables of levels from levels
row_lengths.py       how long rows may be
quantizer.py         what a codec consists of beside its rotation, while it is fitted
fitting.py           the step, the lengths of rows and the tables, from a sample that is coded a few times
design.py            Designer: a codec for a size, and the error to expect
coding.py            all rows, within a number of bytes
learner.py           transform_coded: the rows of one rank
"""
