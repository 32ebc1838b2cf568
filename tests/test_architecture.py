"""The layers of the package, held to: imports point down, files stay short, and serving needs numpy alone."""

import ast
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

import kdcode

PACKAGE = Path(__file__).parent.parent / "src" / "kdcode"

LAYERS = [
    {"printable", "wording", "_version", "file_locks", "_core", "randomness"},
    {"errors", "provenance"},
    {"files"},
    {"cpus", "memory", "folders", "arrays", "bitpack", "option_fields", "safetensors_header", "limits", "digests"},
    {"stored_array", "threads", "row_parts"},
    {"symbols", "rows", "search", "int8_rows"},
    {"similarity", "symbol_sorting"},
    {"mapping"},
    {"table"},
    {"data", "codec"},
    {"code_scan", "code_groups"},
    {"coded"},
    {"options", "storage"},
    {"stream_storage", "io", "option_keywords", "run_record"},
    {"inputs"},
    {"evaluation"},
    {"codec_torch", "progress_bar"},
    {"nn"},
    {"learning"},
    {"bulk"},
    {"comparison"},
    {"report", "integrations"},
    {"cli"},
    {"__main__"},
]
"""Modules and packages from the bottom up. Each uses the layers below its own, and nothing beside or above it."""

LAYER_OF = {name: number for number, layer in enumerate(LAYERS) for name in layer}
SERVING = {name for name, layer in LAYER_OF.items() if layer <= LAYER_OF["storage"]} | {
    "stream_storage",
    "inputs",
    "evaluation",
    "run_record",
    "report",
}
"""What needs numpy alone. Some formats of `io` need a library each, when a file is read."""

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_ARGUMENTS = 7
MORE_ARGUMENTS = {
    "codec/codeword_spec.py: named": 10,  # one for each option that decides the shape of a codec
    "nn/coded_layer.py: __init__": 8,  # those of nn.Embedding, how codes are kept, and what is kept beside them
    "nn/coded_embedding_bag.py: __init__": 10,  # the same, and those of nn.EmbeddingBag
    "nn/kd_embedding.py: __init__": 10,  # those of nn.Embedding, and a code's size, shape and parts
    "nn/assignment.py: __init__": 9,  # the shape of a code, how queries are scored, and those of torch
    "integrations/torch_models.py: compress_embeddings": 8,  # which layers, and how they are compressed
}
"""The functions that may have more arguments, and how many. Commands of `cli` have one for each flag."""

VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "core", "base"}

FILES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


def of_files(files):
    return pytest.mark.parametrize("path", files, ids=lambda path: str(path.relative_to(PACKAGE)))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    """The module or package of the top level that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Every import of a file, inside functions too, but for those that only a type checker sees."""
    for_types = [
        block
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
    ]
    hidden = {node for block in for_types for statement in block.body for node in ast.walk(statement)}
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) and node not in hidden]


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names that an import brings in; `from kdcode import x` brings kdcode.x."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module == "kdcode":
        return [f"kdcode.{alias.name}" for alias in node.names]
    return [node.module or ""]


def imported(path: Path) -> set[str]:
    tree = parsed(path)
    assert not [node for node in imports(tree) if isinstance(node, ast.ImportFrom) and node.level]
    return {module for node in imports(tree) for module in modules(node)}


def parts_used(path: Path) -> set[str]:
    """The parts of kdcode that a file imports, its own left out."""
    names = {module.split(".")[1] for module in imported(path) if module.startswith("kdcode.")}
    return names - {part_of(path)}


@of_files(FILES)
def test_imports_point_down(path):
    part, used = part_of(path), parts_used(path)
    if part == "__init__":
        assert used == {"_version"}  # the rest is resolved at first use
        return
    assert part in LAYER_OF, f"give {part!r} its layer"
    upward = {other for other in used if LAYER_OF.get(other, len(LAYERS)) >= LAYER_OF[part]}
    assert not upward, f"{part} is in layer {LAYER_OF[part]} and may not import {sorted(upward)}"


@of_files([path for path in FILES if part_of(path) in SERVING])
def test_serving_imports_numpy_alone(path):
    outside = {module.split(".")[0] for module in imported(path)} - {"kdcode"} - set(sys.stdlib_module_names)
    assert outside <= {"numpy"}


@of_files(FILES)
def test_files_are_short_and_named_for_what_they_hold(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    assert not VAGUE & {part.removesuffix(".py").strip("_") for part in path.relative_to(PACKAGE).parts}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Arguments that a caller gives, self and cls left out."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([argument for argument in named if argument.arg not in ("self", "cls")])


@of_files(FILES)
def test_functions_are_short_and_take_few_arguments(path):
    for function in functions(path):
        name = f"{path.relative_to(PACKAGE)}: {function.name}"
        assert lines(function) <= MAX_FUNCTION_LINES, f"{name} has {lines(function)} lines"
        if part_of(path) != "cli":
            most = MORE_ARGUMENTS.get(name, MAX_ARGUMENTS)
            assert arguments(function) <= most, f"{name} has {arguments(function)} arguments"


def test_functions_with_more_arguments_are_there():
    found = {f"{path.relative_to(PACKAGE)}: {function.name}" for path in FILES for function in functions(path)}
    assert set(MORE_ARGUMENTS) <= found


def submodules(package: Path) -> set[str]:
    return {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}


def shadowing(package: Path, tree: ast.Module) -> set[str]:
    """Names in `__all__` of a package that are those of its modules, and are not the modules themselves."""
    dotted = ".".join(["kdcode", *package.relative_to(PACKAGE).parts])
    public = {
        element.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
        for element in getattr(node.value, "elts", [])
    }
    themselves = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == dotted
        for alias in node.names
    }
    return (public & submodules(package)) - themselves


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_is_shadowed_by_what_its_package_exports(package):
    assert not shadowing(package, parsed(package / "__init__.py"))


def test_names_resolved_at_first_use_shadow_no_module_either():
    for name in set(kdcode.__all__) & submodules(PACKAGE):
        assert isinstance(getattr(kdcode, name), ModuleType)


def test_compression_does_not_import_the_compiler_of_torch():
    """It takes longer to import than the rest of torch, and every command would wait for it."""
    script = """
import sys
import numpy, kdcode, kdcode.nn

vectors = numpy.random.default_rng(0).normal(size=(200, 8)).astype(numpy.float32)
kdcode.compress(vectors, "6x", effort="fast")
coded = kdcode.compress(vectors, codebook_size=4, code_length=4, effort="fast")
kdcode.nn.CodedEmbedding(coded)
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "False\n", done.stderr


def test_layers_do_not_import_learning():
    """Serving a coded table from a torch layer loads nothing of what learns codes."""
    pytest.importorskip("torch")
    script = """
import sys
import numpy, torch
import kdcode.nn
from kdcode.codec import CodewordSpec, make_codec
from kdcode.coded import CodedTable

spec = CodewordSpec.named("linear", 3, 4, 2)
codec = make_codec(spec, {"codebook": numpy.ones((2, 4, 3))})
coded = CodedTable.from_codes(None, numpy.array([[0, 1], [2, 3]]), codec)
assert kdcode.nn.CodedEmbedding(coded)(torch.tensor([0, 1])).tolist() == [[2.0] * 3] * 2
print([name for name in sys.modules if name.startswith("kdcode.learning")])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "[]", run.stderr


def test_the_tests_above_see_what_they_should():
    seen = ast.parse(
        "from kdcode import load, coded\nimport kdcode.nn.x\n"
        "def f():\n    from torch import nn\n"
        "if TYPE_CHECKING:\n    from kdcode.cli import main\n"
    )
    found = [module for node in imports(seen) for module in modules(node)]
    assert sorted(found) == ["kdcode.coded", "kdcode.load", "kdcode.nn.x", "torch"]
    assert {"coded", "storage", "search", "evaluation", "codec", "options"} <= SERVING
    assert not SERVING & {"io", "codec_torch", "nn", "learning"}
    assert LAYER_OF["codec_torch"] < LAYER_OF["nn"] < LAYER_OF["learning"]
    assert len(LAYER_OF) == len(list(chain(*LAYERS)))
    assert {path.name for path in PACKAGES} >= {"codec", "codec_torch", "nn", "learning"}
    one = ast.parse("async def f(self, a, /, b, *c, d=1, **e):\n    pass\n    pass\n").body[0]
    assert (lines(one), arguments(one)) == (3, 3)
    shadowed = ast.parse("from kdcode.codec.lstm import lstm\n__all__ = ['lstm', 'Codec']")
    assert shadowing(PACKAGE / "codec", shadowed) == {"lstm"}
    itself = ast.parse("from kdcode.codec import lstm\n__all__ = ['lstm', 'Codec']")
    assert shadowing(PACKAGE / "codec", itself) == set()
