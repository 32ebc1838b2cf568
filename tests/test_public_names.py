import subprocess
import sys

import pytest

import kdcode


def test_import_takes_no_torch_and_no_numpy():
    script = (
        "import sys, kdcode; print([name for name in "
        "('torch', 'numpy', 'pyarrow', 'click', 'rich') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_serving_takes_no_torch_even_where_it_is_installed(tmp_path):
    script = f"""
import sys, kdcode, numpy
from kdcode.codec import CodewordSpec, make_codec
codec = make_codec(CodewordSpec.named("linear", 2, 2, 1), {{"codebook": numpy.eye(2)[None]}})
coded = kdcode.CodedTable.from_codes(["a", "b"], numpy.array([[0], [1]]), codec)
kdcode.save(coded, {str(tmp_path / "t.kdc")!r})
kdcode.load({str(tmp_path / "t.kdc")!r}).neighbors("a")
coded.encode(numpy.ones(2))
kdcode.verify({str(tmp_path / "t.kdc")!r}, coded.to_table())
print([name for name in ('torch', 'pyarrow', 'click', 'rich') if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


NEED_TORCH = ("compress", "compress_embeddings", "compress_file", "learn_codebook", "plan")
SERVING = [name for name in kdcode.__all__ if name not in NEED_TORCH]


@pytest.mark.parametrize("name", SERVING)
def test_every_public_name_is_there(name):
    assert getattr(kdcode, name) is not None
    assert name in dir(kdcode)


def test_names_are_those_of_their_modules():
    from kdcode.coded import CodedTable
    from kdcode.evaluation import evaluate, verify
    from kdcode.options import CompressOptions
    from kdcode.storage import load, save
    from kdcode.table import VectorTable

    assert (kdcode.CodedTable, kdcode.VectorTable, kdcode.evaluate) == (CodedTable, VectorTable, evaluate)
    assert (kdcode.load, kdcode.save, kdcode.verify) == (load, save, verify)
    assert kdcode.CompressOptions is CompressOptions
    assert kdcode.errors.KdcodeError.__module__ == "kdcode.errors"
    assert set(kdcode.__all__) <= set(dir(kdcode))
    assert kdcode.__version__.count(".") == 2


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'kdcode' has no attribute 'decompress'"):
        kdcode.decompress  # noqa: B018
