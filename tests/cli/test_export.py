"""`kdcode export`: what it writes, says and refuses."""

import subprocess
import sys

import faiss
import numpy as np
import onnxruntime
import pytest
from sample_tables import coded_table

import kdcode


@pytest.fixture
def plain(tmp_path, coded):
    """A .kdc file whose symbols fit in lines."""
    path = tmp_path / "plain.kdc"
    kdcode.save(kdcode.CodedTable.from_codes([f"w{row}" for row in range(6)], coded.codes, coded.codec), path)
    return path


def vectors(model, ids):
    return onnxruntime.InferenceSession(model).run(None, {"ids": np.asarray(ids)})[0]


def test_a_model_that_onnxruntime_runs(run, kdc, tmp_path, coded):
    out = tmp_path / "t.onnx"
    result = run("export", kdc, out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{out}  6 x 2, {out.stat().st_size:,} B\n"
    assert np.allclose(vectors(out, [5, 0, 5]), coded.decode([5, 0, 5]))


def test_two_dimensions_symbols_and_a_check(run, plain, tmp_path, coded):
    out, names = tmp_path / "t.onnx", tmp_path / "t.txt"
    result = run("export", plain, out, "--rank", 2, "--symbols", names, "--check", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith(", as onnxruntime computes them\n")
    assert names.read_text() == "w0\nw1\nw2\nw3\nw4\nw5\n"
    assert np.allclose(vectors(out, [[5, 0], [1, 1]]), coded.decode([[5, 0], [1, 1]]))


def test_what_is_there_is_kept(run, plain, tmp_path):
    out, names = tmp_path / "t.onnx", tmp_path / "t.txt"
    names.write_text("mine")
    result = run("export", plain, out, "--symbols", names)
    assert (result.exit_code, names.read_text(), out.exists()) == (1, "mine", False)
    assert f"{names} exists already, --force replaces it" in result.stderr
    assert run("export", plain, out, "--symbols", names, "--force").exit_code == 0
    assert names.read_text().startswith("w0\n")


def test_standard_input_and_output(plain, tmp_path, coded):
    line = [sys.executable, "-m", "kdcode", "export", "-", "-"]
    done = subprocess.run(line, input=plain.read_bytes(), capture_output=True, check=True)
    assert np.allclose(vectors(done.stdout, [3, 4]), coded.decode([3, 4]))
    assert done.stderr.decode() == f"standard output  6 x 2, {len(done.stdout):,} B\n"


def found(index, coded, metric):
    """The scores and rows that an index finds for the vector of row 4, and those of the table's own search."""
    query = coded.decode([4])
    scores, rows = index.search(query, 6)
    ours = [near.score for near in coded.neighbors(query[0], 6, metric=metric)]
    return scores[0], rows[0], ours


@pytest.mark.parametrize(
    ("name", "flags", "metric"),
    [
        ("t.faiss", [], "dot"),
        ("T.FAISS", ["--metric", "l2"], "l2"),
        ("index.bin", ["--format", "faiss", "--metric", "dot"], "dot"),
        ("t.npy", ["--format", "faiss"], "dot"),
    ],
)
def test_an_index_that_faiss_searches(run, plain, tmp_path, coded, name, flags, metric):
    out, names = tmp_path / name, tmp_path / "t.txt"
    result = run("export", plain, out, *flags, "--symbols", names)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{out}  6 x 2, {out.stat().st_size:,} B\n"
    scores, rows, ours = found(faiss.read_index(str(out)), coded, metric)
    assert np.allclose(scores, np.square(ours) if metric == "l2" else ours, atol=1e-5)
    assert sorted(rows) == [0, 1, 2, 3, 4, 5]
    assert names.read_text() == "w0\nw1\nw2\nw3\nw4\nw5\n"


def test_the_format_decides_before_the_suffix(run, kdc, tmp_path, coded):
    assert run("export", kdc, tmp_path / "t.faiss", "--format", "onnx").exit_code == 0
    assert np.allclose(vectors(tmp_path / "t.faiss", [1]), coded.decode([1]))


def test_an_index_on_standard_output(plain, coded):
    line = [sys.executable, "-m", "kdcode", "export", "-", "-", "--format", "faiss"]
    done = subprocess.run(line, input=plain.read_bytes(), capture_output=True, check=True)
    index = faiss.deserialize_index(np.frombuffer(done.stdout, dtype=np.uint8))
    assert np.allclose(index.reconstruct(3), coded.decode([3])[0])
    assert done.stderr.decode() == f"standard output  6 x 2, {len(done.stdout):,} B\n"


def test_codes_that_faiss_has_no_index_for(run, tmp_path):
    kdcode.save(coded_table("lstm"), tmp_path / "t.kdc")
    result = run("export", tmp_path / "t.kdc", tmp_path / "t.faiss")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: faiss adds codewords up and cannot run an LSTM over them; ")
    assert [path.name for path in tmp_path.iterdir()] == ["t.kdc"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["t.txt"], 1, "name a file that ends in .onnx or .faiss; for vectors, use: kdcode expand small.kdc t.txt"),
        (["t.faiss", "--metric", "cosine"], 1, "error: --metric: faiss has no cosine"),
        (["t.faiss", "--metric", "cosine"], 1, "choose --metric dot, or search"),
        (["t.faiss", "--metric", "l1"], 1, "error: --metric must be one of dot, l2, got 'l1'"),
        (["t.faiss", "--rank", "1"], 2, "--rank is for an ONNX model, and OUT is a faiss index; leave it out"),
        (["t.faiss", "--check"], 2, "--check is for an ONNX model, and OUT is a faiss index"),
        (["t.onnx", "--metric", "dot"], 2, "--metric is for a faiss index, and OUT is an ONNX model"),
        (["t.onnx", "--metric", "dot"], 2, "name a file that ends in .faiss, or give --format faiss"),
        (["t.faiss", "--symbols", "t.faiss"], 1, "t.faiss"),
        (["t.faiss", "--symbols", "t.names"], 1, "t.names: row 5: the symbol 'new\\nline' holds a line break"),
        (["t.onnx", "--rank", "0"], 1, "error: --rank: expected a whole number from 1 to 8, got 0"),
        (["t.onnx", "--symbols", "t.onnx"], 1, "t.onnx"),
        (["t.onnx", "--symbols", "-"], 2, "--symbols takes the name of a file"),
        (["t.onnx", "--symbols", "t.names"], 1, "t.names: row 5: the symbol 'new\\nline' holds a line break"),
        (["t.onnx", "--symbols", "small.kdc", "--force"], 1, "small.kdc: is the input itself"),
    ],
)
def test_refusals(run, kdc, tmp_path, monkeypatch, words, code, said):
    monkeypatch.chdir(tmp_path)
    result = run("export", kdc.name, *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [kdc.name]


@pytest.mark.parametrize(
    ("missing", "name", "flags", "said"),
    [
        (
            "faiss",
            "t.faiss",
            [],
            "faiss-cpu is required for a faiss index and is not installed: pip install 'faiss-cpu>=",
        ),
        ("onnx", "t.onnx", [], "onnx is required for exporting to ONNX and is not installed: pip install 'onnx>="),
        (
            "onnxruntime",
            "t.onnx",
            ["--check"],
            "--check: this needs onnxruntime, which is not installed: pip install onnxruntime",
        ),
    ],
)
def test_packages_that_are_not_there(kdc, tmp_path, missing, name, flags, said):
    line = ["export", str(kdc), str(tmp_path / name), *flags]
    script = f"import sys; sys.modules[{missing!r}] = None\nfrom kdcode.cli import main; main({line})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {said}")
    assert not (tmp_path / name).exists()
