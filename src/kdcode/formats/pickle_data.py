"""Pickles read as data: what they call is written down, never called, so that none can run code or fill the memory.

A pickle is a program. Those of PyTorch build dicts, lists and numbers, and call a few functions that make tensors; here
each call becomes a `Call`, from which `torch_file` takes what it needs.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, NamedTuple


class Global(NamedTuple):
    """A function or class that a pickle names."""

    module: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that a pickle makes: `function` is mostly a `Global`."""

    function: Any
    arguments: Any


@dataclass(frozen=True, slots=True, eq=False)
class Persistent:
    """A reference to something outside of the pickle."""

    key: Any


_MAX_NAME = 200
_DICTS = (Global("collections", "OrderedDict"), Global("collections", "Counter"))

_Read = Callable[[int], bytes]


def _packed(form: str) -> Callable[[_Read], Any]:
    """Reads a number."""
    packed = struct.Struct(form)
    return lambda read: packed.unpack(read(packed.size))[0]


def _counted(form: str, made: Callable[[bytes], Any]) -> Callable[[_Read], Any]:
    """Reads as many bytes as the number before them says, and makes something of them."""
    count = _packed(form)
    return lambda read: made(read(count(read)))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


_VALUES: dict[str, Callable[[_Read], Any]] = {
    "BININT": _packed("<i"),
    "BININT1": _packed("B"),
    "BININT2": _packed("<H"),
    "LONG1": _counted("B", _integer),
    "LONG4": _counted("<I", _integer),
    "BINFLOAT": _packed(">d"),
    "BINUNICODE": _counted("<I", _text),
    "SHORT_BINUNICODE": _counted("B", _text),
    "BINUNICODE8": _counted("<Q", _text),
    "BINSTRING": _counted("<I", lambda raw: raw.decode("latin-1")),
    "SHORT_BINSTRING": _counted("B", lambda raw: raw.decode("latin-1")),
    "BINBYTES": _counted("<I", bytes),
    "SHORT_BINBYTES": _counted("B", bytes),
    "BINBYTES8": _counted("<Q", bytes),
    "BYTEARRAY8": _counted("<Q", bytes),
}
"""The opcodes that push their argument, and how it is read."""

_NUMBERED: dict[str, Callable[[_Read], int]] = {
    **dict.fromkeys(("BINGET", "BINPUT", "PROTO"), _packed("B")),
    **dict.fromkeys(("LONG_BINGET", "LONG_BINPUT"), _packed("<I")),
    "FRAME": _packed("<Q"),
}
"""The other opcodes that have a number as argument."""

_NAMES = {opcode.code.encode("latin-1"): opcode.name for opcode in pickletools.opcodes}

_NEW: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def load(stream: IO[bytes], allowed: Callable[[Global], bool]) -> Any:  # noqa: ANN401 - whatever it holds
    """What the next pickle of a stream holds; the stream is left behind it.

    Dicts have their entries with keys of text and of integers, as text; sets are lists.

    Args:
        stream: where it begins.
        allowed: whether a function or class may be named.

    Raises:
        ValueError: it names one that is not allowed, or is damaged. Damage may end in other exceptions too.
    """

    def read(count: int) -> bytes:
        data = stream.read(count)
        if len(data) < count:
            raise ValueError("the pickle ends early")
        return data

    machine = _Machine(allowed)
    while True:
        name = _NAMES.get(read(1), "none")
        if name == "STOP":
            return machine.stack.pop()
        if name in _VALUES:
            machine.stack.append(_VALUES[name](read))
        elif name == "GLOBAL":
            machine.add_global(*(stream.readline(_MAX_NAME)[:-1].decode("utf-8") for _ in range(2)))
        else:
            machine.step(name, _NUMBERED[name](read) if name in _NUMBERED else 0)


class _Machine:
    """The stack, the memo and the marks of a pickle that is being read."""

    def __init__(self, allowed: Callable[[Global], bool]) -> None:
        self.stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._allowed = allowed

    def step(self, name: str, number: int) -> None:
        """One opcode and its number, if it has any."""
        stack = self.stack
        if name in _NEW:
            stack.append(_NEW[name]())
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if name == "MEMOIZE" else number] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[number])
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name not in ("PROTO", "FRAME"):
            step = getattr(self, f"_{name.lower()}", None)
            if step is None:
                raise ValueError(f"the pickle has the opcode {name}, which files of tensors do not have")
            step()

    def add_global(self, module: str, name: str) -> None:
        """A function or class."""
        named = Global(module, name)
        if not self._allowed(named):
            raise ValueError(f"it names {module}.{name}"[:_MAX_NAME])
        self.stack.append(named)

    def _mark(self) -> None:
        self._marked.append(self.stack)
        self.stack = []

    def _since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._marked.pop()
        return items

    def _tuple(self) -> None:
        items = self._since_mark()
        self.stack.append(tuple(items))

    def _list(self) -> None:
        items = self._since_mark()
        self.stack.append(items)

    _frozenset = _list

    def _dict(self) -> None:
        items = self._since_mark()
        self.stack.append({})
        self._set(items)

    def _pop(self) -> None:
        self.stack.pop()

    def _pop_mark(self) -> None:
        self._since_mark()

    def _dup(self) -> None:
        self.stack.append(self.stack[-1])

    def _append(self) -> None:
        self._extend([self.stack.pop()])

    def _appends(self) -> None:
        self._extend(self._since_mark())

    _additems = _appends

    def _extend(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def _setitem(self) -> None:
        items = [self.stack.pop(-2), self.stack.pop()]
        self._set(items)

    def _setitems(self) -> None:
        self._set(self._since_mark())

    def _set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, dict):
            pairs = zip(items[::2], items[1::2], strict=True)
            target.update({str(key): value for key, value in pairs if type(key) in (str, int)})

    def _stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(module) is not str or type(name) is not str:
            raise ValueError("a name is no text")
        self.add_global(module, name)

    def _reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        self.stack.append({} if function in _DICTS and arguments == () else Call(function, arguments))

    _newobj = _reduce

    def _newobj_ex(self) -> None:
        self.stack.pop()
        self._reduce()

    def _build(self) -> None:
        self.stack.pop()  # attributes of an object, none of which are numbers of a table

    def _binpersid(self) -> None:
        self.stack.append(Persistent(self.stack.pop()))
