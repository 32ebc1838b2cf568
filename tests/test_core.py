"""The compiled module: it is built from these sources, its stub is its own, and it serves in every process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from nanobind.stubgen import StubGen

from kdcode import _core, bitpack, errors

ROOT = Path(__file__).parent.parent
ISAS = ("plain", "avx2", "avx512", "neon")


def test_the_module_is_built_from_these_sources():
    sources = [ROOT / "CMakeLists.txt", *sorted([*ROOT.glob("core/*.cpp"), *ROOT.glob("core/*.hpp")])]
    digests = "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in sources)
    built = hashlib.sha256(digests.encode()).hexdigest()
    assert _core.sources() == built, "the compiled core is not that of core/: build it again with `make core`"


def test_the_stub_is_the_one_that_nanobind_writes():
    made = StubGen(_core)
    made.put(_core)
    assert (ROOT / "src/kdcode/_core.pyi").read_text(encoding="utf-8") == made.get(), "run `make fix`"


def with_isa(name):
    script = "from kdcode import _core; print(_core.isa())"
    environment = {**os.environ, "KDCODE_ISA": name}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_an_instruction_set_is_chosen_or_refused():
    assert with_isa("plain").stdout == "plain\n"
    assert with_isa("").stdout.strip() in ISAS
    for name in ISAS:
        done = with_isa(name)
        assert (
            done.stdout == f"{name}\n" if done.returncode == 0 else "this build and processor have plain" in done.stderr
        )
    refused = with_isa("mmx")
    assert refused.returncode != 0
    assert "ImportError: KDCODE_ISA is mmx, but this build and processor have plain" in refused.stderr


def refusals():
    codes, packed = np.zeros((2, 3), dtype=np.uint8), np.zeros((2, 2), dtype=np.uint8)
    fixed = packed.copy()
    fixed.flags.writeable = False
    unaligned = np.frombuffer(bytes(13), dtype=np.uint8)[1:].view(np.uint16).reshape(2, 3)
    yield (3, packed), "expected integers.*; got <class 'int'>"
    yield (codes.astype(bool), packed), "got bool of shape"
    yield (codes.astype(np.float32), packed), "got float32 of shape"
    yield (codes.astype(">i4"), packed), "got >i4 of shape"
    yield (codes.T, packed), "not contiguous"
    yield (unaligned, packed), "not aligned"
    yield (codes, fixed), "expected writable uint8 values.*read-only"
    yield (codes, packed.astype(np.int8)), "expected writable uint8 .*got int8"
    yield (codes, packed[0]), r"with 2 dimensions; got uint8 of shape \(2,\)"
    yield (codes, packed[:1]), r"the packed rows must have shape \(2, 2\), got \(1, 2\)"


@pytest.mark.parametrize(("arrays", "text"), list(refusals()))
def test_an_array_that_does_not_fit_is_refused_and_never_converted(arrays, text):
    with pytest.raises(errors.OptionError, match=text):
        _core.pack(arrays[0], bytes([5] * 3), arrays[1])


def test_read_only_and_empty_arrays_are_read():
    packed = np.array([[0b10_01_11]], dtype=np.uint8)
    packed.flags.writeable = False
    found = np.empty((1, 3), dtype=np.uint8)
    _core.unpack(packed, bytes([2] * 3), found)
    assert found.tolist() == [[3, 1, 2]]
    _core.unpack(packed[:0], bytes([2] * 3), found[:0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_uses_the_core_and_ends_well():
    """As the workers of a DataLoader do, which are forked once the parent has used the core."""
    values = np.arange(60_000, dtype=np.uint16).reshape(-1, 3) % 512
    packed = bitpack.pack(values, [9] * 3)
    child = os.fork()
    if child == 0:
        equal = np.array_equal(bitpack.unpack(packed, [9] * 3), values)
        try:
            bitpack.pack(values, [8] * 3)
        except errors.OptionError:
            os._exit(0 if equal else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
