"""The serving half on a device with numpy alone: importing anything else is made to fail."""

import subprocess
import sys

SCRIPT = """
import sys
import importlib.abc

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "click", "rich", "pyarrow", "safetensors", "hypothesis", "marisa_trie"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Absent())
for name in ("torch", "click", "rich", "pyarrow"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} could be imported: this test proves nothing")

import numpy as np
import kdcode
from kdcode.codec import CodewordSpec, make_codec

random = np.random.default_rng(0)
path = sys.argv[1]
codes = np.column_stack([random.integers(0, 5, size=(20, 3)), random.integers(0, 4, size=20)])
symbols = [f"s{row}" for row in range(20)]
for composition in ("linear", "grouped", "lstm"):
    spec = CodewordSpec.named(composition, 6, 5, 3, scale_bits=2)
    codec = make_codec(spec, {name: random.normal(size=shape) for name, shape in spec.weight_shapes().items()})
    coded = kdcode.CodedTable.from_codes(symbols, codes, codec)
    kdcode.save(coded, path)
    loaded = kdcode.load(path)
    vectors = loaded.decode(np.arange(20))
    assert (vectors == coded.decode(np.arange(20))).all()
    assert np.allclose(loaded["s3"], vectors[3], atol=1e-6)
    assert len(loaded.neighbors("s3", 4)) == 4
    assert loaded.encode(vectors).shape == (20, 4)
    table = kdcode.VectorTable(symbols, vectors)
    assert kdcode.verify(path, table).relative_error == 0
    assert kdcode.evaluate(table, loaded).relative_error == 0
assert len(kdcode.compare(table, {"coded": loaded}, ["int8", "int4"]).contenders) == 3
assert kdcode.CompressOptions().spec(6).sizes(20).total > 0

rows = random.normal(size=(400, 8)).astype(np.float32)
assert kdcode.compress(rows, composition="transform", row_bytes=8.0).spec.composition == "transform"
try:
    kdcode.compress(vectors, codebook_size=4, code_length=2)
except kdcode.errors.MissingExtraError as error:
    assert "pip install 'torch>=" in str(error)
else:
    raise SystemExit("learning needs torch and did not say so")
print("served")
"""


def test_serving_needs_numpy_alone(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "t.kdc")], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "served", run.stderr
