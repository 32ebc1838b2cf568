"""Cut the embedded default table out of a larger GloVe folder.

    python benchmarks/cut_glove.py FOLDER

FOLDER holds `vectors.npy` (rows of 50-dimensional GloVe 6B, most frequent word first) and `symbols.txt`. The first
10,000 rows are kept as float16 in `src/kdcode/data/glove-50d.npz`.
"""

import sys
from pathlib import Path

import numpy as np

ROWS = 10_000
TARGET = Path(__file__).parents[1] / "src" / "kdcode" / "data" / "glove-50d.npz"


def cut(folder: Path, target: Path) -> None:
    """Write the first rows of `folder` to `target`."""
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")[:ROWS].astype(np.float16)
    symbols = (folder / "symbols.txt").read_text(encoding="utf-8").split("\n")[:ROWS]
    np.savez(target, vectors=vectors, symbols=np.frombuffer("\n".join(symbols).encode("utf-8"), dtype=np.uint8))


if __name__ == "__main__":
    cut(Path(sys.argv[1]), TARGET)
