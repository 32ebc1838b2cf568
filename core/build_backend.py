"""How pip builds the package: with scikit-build-core, and where there is no C++ compiler, with one from PyPI.

The compiler is `ziglang`, a package that is clang with all that it needs. It is only asked for where none is found.
"""

from __future__ import annotations

import os
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

from scikit_build_core import build as skbuild
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist",
    "get_requires_for_build_wheel", "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
]  # fmt: skip
"""The hooks that pip calls: PEP 517 and 660."""

Settings = dict[str, list[str] | str] | None

_COMPILERS = ("c++", "g++", "clang++", "clang-cl", "icpx")
_TOOLS = {"c++": "c++ -mcpu=baseline", "ar": "ar", "ranlib": "ranlib"}
"""What is called, and what of zig it is. Without the option it would compile for this processor alone."""


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What building a wheel takes: a compiler too, where there is none."""
    return [*skbuild.get_requires_for_build_wheel(config_settings), *_missing_compiler()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """What an editable installation takes: a compiler too, where there is none."""
    return [*skbuild.get_requires_for_build_editable(config_settings), *_missing_compiler()]


def build_wheel(folder: str, config_settings: Settings = None, metadata: str | None = None) -> str:
    """Build a wheel into a folder, and return its name."""
    _find_compiler()
    return skbuild.build_wheel(folder, config_settings, metadata)


def build_editable(folder: str, config_settings: Settings = None, metadata: str | None = None) -> str:
    """Build what installs the package from where it lies, and return its name."""
    _find_compiler()
    return skbuild.build_editable(folder, config_settings, metadata)


def _missing_compiler() -> list[str]:
    there = "CXX" in os.environ or os.name == "nt" or any(map(shutil.which, _COMPILERS))
    return [] if there else ["ziglang>=0.13"]


def _find_compiler() -> None:
    """Let CMake find zig where there is no compiler: it looks for `ar` beside the compiler that CXX names."""
    zig = find_spec("ziglang")
    if not _missing_compiler() or zig is None or zig.origin is None:
        return
    program = shlex.quote(str(Path(zig.origin).with_name("zig")))
    tools = Path("build", "zig").absolute()  # the same place each time, since CMake remembers it
    tools.mkdir(parents=True, exist_ok=True)
    for name, call in _TOOLS.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {program} {call} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    os.environ["CXX"] = str(tools / "c++")
