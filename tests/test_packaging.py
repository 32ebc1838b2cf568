"""The packages that are built: the sdist is complete, and the wheel serves in an environment with nothing else."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import kdcode
from kdcode import errors
from kdcode.codec import CodewordSpec, make_codec

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOT_SOURCE = {"demo.html", "build", "dist"}  # what building leaves in a checkout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The folder with an sdist and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def source_files() -> set[str]:
    """Every file that belongs to the project, seen from its root."""
    found = set()
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        ours = parts[0] == ".ci" or not (parts[0].startswith(".") or parts[0] in NOT_SOURCE)
        if ours and path.is_file() and not {"__pycache__", "work"} & set(parts):
            found.add("/".join(parts))
    return found


def test_the_sdist_has_every_file_of_the_project(packages):
    with tarfile.open(next(packages.glob("*.tar.gz"))) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert not sorted(source_files() - held)


def test_the_wheel_has_the_package_its_data_and_its_licences(packages):
    with zipfile.ZipFile(next(packages.glob("*.whl"))) as wheel:
        held = set(wheel.namelist())
    package = {name.removeprefix("src/") for name in source_files() if name.startswith("src/kdcode/")}
    assert not sorted(package - held)
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"kdcode"}  # the package and its metadata
    assert sum(name.endswith(("/LICENSE", "/LICENSE-GLOVE")) for name in held) >= 2


def extension(wheel: Path) -> tuple[str, bytes]:
    """The name and the bytes of the compiled core in a wheel."""
    with zipfile.ZipFile(wheel) as held:
        (name,) = [name for name in held.namelist() if name.startswith("kdcode/_core.") and not name.endswith(".pyi")]
        return name, held.read(name)


def test_the_wheel_has_the_core_stripped_and_for_as_many_pythons_as_can_be(packages):
    wheel = next(packages.glob("*.whl"))
    name, held = extension(wheel)
    assert len(held) <= 2_000_000
    assert b".symtab" not in held
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    stable = sys.version_info >= (3, 12) and not free_threaded
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = "cp312-abi3" if stable else f"{python}-{python}{'t' if free_threaded else ''}"
    assert wheel.name.startswith(f"kdcode-{kdcode.__version__}-{tag}-")
    assert ("abi3" in name) == stable


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows needs clang-cl")
def test_it_builds_without_a_compiler(packages, tmp_path):
    """With a PATH that has nothing but a shell; zig and CMake come from PyPI."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("sh"))
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX", "CMAKE")}
    environment |= {"PATH": str(tmp_path / "bin"), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    sdist = str(next(packages.glob("*.tar.gz")))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), sdist]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    name, held = extension(next(tmp_path.glob("*.whl")))
    assert b"libstdc++" not in held  # which zig has not
    module = tmp_path / Path(name).name
    module.write_bytes(held)
    done = subprocess.run(
        [sys.executable, "-c", "import _core; print(_core.value_at(b'\\x50', 1, 4))"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "5\n", done.stderr


GOLDEN = """
import json, sys
from pathlib import Path
import numpy as np
import kdcode

folder = Path(sys.argv[1])
for name, expected in json.loads((folder / "expected.json").read_text(encoding="utf-8")).items():
    coded = kdcode.load(folder / f"{name}.kdc")
    assert coded.codes.tolist() == expected["codes"], name
    if len(coded):
        np.testing.assert_allclose(coded.decode(np.arange(len(coded))), expected["vectors"], rtol=1e-6, atol=2e-6)
print(np.__version__)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the lowest numpy has no build for this Python")
def test_the_wheel_serves_with_the_lowest_versions_of_what_it_depends_on(packages, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    lowest = [line.replace(">=", "==") for line in PROJECT["project"]["dependencies"]]
    environment = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    for line in (
        [*pip, *lowest, str(next(packages.glob("*.whl")))],
        [python, "-c", GOLDEN, str(ROOT / "tests/golden")],
    ):
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("1.26.")


def test_errors_name_the_packages_of_the_extras():
    extras = dict(PROJECT["project"]["optional-dependencies"])
    del extras["dev"]
    assert extras == {name: [package] for name, package in errors.EXTRAS.items()}


def test_the_demo_installs_no_tools_of_developers():
    def printed(target):
        command = ["make", "--dry-run", "--always-make", target]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "--editable .\n" in printed("demo")
    assert ".[" not in printed("demo")
    assert ".[dev]" in printed("test")


SERVE = """
import numpy as np
import kdcode

coded = kdcode.load("t.kdc")
assert coded.decode([[0, 1], [2, 3]]).shape == (2, 2, 6)
assert np.allclose(coded["s3"], coded.decode([3])[0])
assert len(coded.neighbors("s3", 4)) == 4
assert len(kdcode.data.glove_50d()) == 10_000
try:
    kdcode.nn
except kdcode.errors.MissingExtraError as error:
    print(error)
"""


def needed_by(lines: list[str]) -> dict[str, Distribution]:
    """The packages of this environment that satisfy some requirements, and those that they require in turn."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement(line) for line in lines]
    while wanted:
        one = wanted.pop()
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found[one.name] = distribution(one.name)
            wanted += [Requirement(line) for line in found[one.name].requires or []]
    return found


@pytest.fixture(scope="module")
def empty(packages, tmp_path_factory):
    """The programs of an environment that holds the wheel and what it depends on, and a folder with one table.

    What it depends on is linked from this environment: no network is needed.
    """
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder / "venv", with_pip=False)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    base = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    installed = Path(sysconfig.get_path("purelib", vars=base))
    for package in needed_by(PROJECT["project"]["dependencies"]).values():
        for name in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
            (installed / name).symlink_to(package.locate_file(name))
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    wheel = next(packages.glob("*.whl"))
    for line in (["install", "--quiet", "--no-deps", "--no-index", str(wheel)], ["check"]):
        done = subprocess.run([*pip, *line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    random = np.random.default_rng(0)
    spec = CodewordSpec.named("linear", 6, 5, 3)
    codec = make_codec(spec, {name: random.normal(size=shape) for name, shape in spec.weight_shapes().items()})
    symbols = [f"s{row}" for row in range(20)]
    kdcode.save(kdcode.CodedTable.from_codes(symbols, random.integers(0, 5, size=(20, 3)), codec), folder / "t.kdc")
    (folder / "words.txt").write_text("a 1 2\nb 3 4\n", encoding="utf-8")
    return programs


def run(empty, *line):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(empty / line[0]), *line[1:]]
    return subprocess.run(
        command, cwd=empty.parent.parent, env=environment, capture_output=True, text=True, check=False
    )


def test_the_wheel_alone_serves_and_says_what_learning_needs(empty):
    done = run(empty, "python", "-c", SERVE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"torch is required for torch layers and is not installed: {errors.install_line('torch')}\n"


def test_the_command_of_the_wheel_works(empty):
    told = run(empty, "kdcode", "info", "t.kdc")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("t.kdc\n")
    refused = run(empty, "kdcode", "compress", "words.txt", "u.kdc", "--learner", "straight-through")
    assert refused.returncode == 1
    assert errors.install_line("torch") in refused.stderr
    learned = run(empty, "kdcode", "compress", "words.txt", "u.kdc", "-K", "2", "-D", "2")
    assert learned.returncode == 0, learned.stderr
