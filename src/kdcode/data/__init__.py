"""The embedded default table: 10,000 words of GloVe 6B, 50 dimensions (PDDL 1.0; see LICENSE-GLOVE)."""

from importlib.resources import as_file, files

import numpy as np

from kdcode.table import VectorTable


def glove_50d() -> VectorTable:
    """The 10,000 most frequent words of GloVe 6B with 50 dimensions, float16."""
    with as_file(files("kdcode.data") / "glove-50d.npz") as path, np.load(path) as arrays:
        return VectorTable(arrays["symbols"].tobytes().decode("utf-8").split("\n"), arrays["vectors"])
