"""The house plan, held to: imports point down, files stay short, and serving needs numpy alone."""

import ast
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent / "src" / "kdcode"

FLOORS = {
    "errors": 0, "_version": 0,
    "files": 1, "table": 1, "bitpack": 1,
    "budget": 2, "symbols": 2, "data": 2, "evaluation": 2,
    "codebook": 3, "row_scales": 3,
    "composition": 4,
    "encoding": 5, "search": 5,
    "coded": 6,
    "options": 7, "storage": 7,
    "formats": 8,
    "learning": 9,
    "nn": 10,
    "report": 11, "integrations": 11,
    "cli": 12,
    "__main__": 13,
}  # fmt: skip
"""Every room of the house and the floor it is on. A room uses the floors below it, and nothing beside or above it."""

SERVING = {room for room, floor in FLOORS.items() if floor <= FLOORS["storage"]}
ALLOWED = {"numpy"}
MAX_LINES = 400
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "core", "base"}

FILES = sorted(path for path in HOUSE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node for node in imports(tree) if isinstance(node, ast.ImportFrom) and node.level]
    return {module for node in imports(tree) for module in modules(node)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_imports_point_down(path):
    room = room_of(path)
    used = {module.split(".")[1] for module in imported(path) if module.startswith("kdcode.")}
    if room == "__init__":
        assert used == {"_version"}  # the rest is resolved at first use
        return
    assert room in FLOORS, f"give the room {room!r} its floor"
    upward = {other for other in used - {room} if FLOORS.get(other, 99) >= FLOORS[room]}
    assert not upward, f"{room} is on floor {FLOORS[room]} and may not import {sorted(upward)}"


@pytest.mark.parametrize(
    "path", [path for path in FILES if room_of(path) in SERVING], ids=lambda path: str(path.relative_to(HOUSE))
)
def test_serving_imports_numpy_alone(path):
    outside = {module.split(".")[0] for module in imported(path)} - {"kdcode"} - set(sys.stdlib_module_names)
    assert outside <= ALLOWED


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_files_are_short_and_named_for_what_they_hold(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    assert not VAGUE & {part.removesuffix(".py").strip("_") for part in path.relative_to(HOUSE).parts}


def test_the_picture_sees_what_it_should():
    seen = ast.parse(
        "from kdcode import load, coded\nimport kdcode.nn.x\n"
        "def f():\n    from torch import nn\n"
        "if TYPE_CHECKING:\n    from kdcode.cli import main\n"
    )
    found = [module for node in imports(seen) for module in modules(node)]
    assert sorted(found) == ["kdcode.coded", "kdcode.load", "kdcode.nn.x", "torch"]
    assert {"coded", "storage", "search", "evaluation"} <= SERVING
    assert "formats" not in SERVING
