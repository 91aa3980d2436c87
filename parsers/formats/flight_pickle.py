"""Reads a pickle as data: only numbers, strings, lists, tuples and dicts can come out. Nothing is imported, called or executed.

`pickle.load` builds whatever the file says, so a file from somewhere else can run any program. Here the instructions are only listed
(`pickletools.genops`) and a small stack machine of our own carries out those that build plain containers; any other ends the reading by
its name. Pickle protocols 0 to 5.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator

from busbw.errors import ReadError

MOST_BYTES = 256 * 1024 * 1024
_INTEGERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_VALUES = frozenset((*_INTEGERS, "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"))
_BYTES = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"))
_PUT = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GET = frozenset(("GET", "BINGET", "LONG_BINGET"))
_CONSTANTS: dict[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NEW: dict[str, Callable[[], object]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}


class _Mark:
    """Where the items of the next container begin on the stack."""


def loads(data: bytes) -> object:
    """The value in a pickle, made of None, bool, int, float, str, list, tuple and dict. Containers may be shared, or contain themselves.

    Raises:
        ReadError: it is cut off, damaged or too large, or it wants to build anything but plain containers; `seen` names the instruction.
    """
    if len(data) > MOST_BYTES:
        raise ReadError(f"a pickle of more than {MOST_BYTES} bytes is not read", seen=f"{len(data)} bytes")
    machine = _Machine()
    for name, argument in _instructions(data):
        if name == "STOP":
            return machine.result()
        try:
            machine.do(name, argument)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ReadError("a damaged pickle", seen=f"{name}: {error}") from error
    raise ReadError("the pickle ends before its end", seen=f"{len(data)} bytes without a STOP")


def _instructions(data: bytes) -> Iterator[tuple[str, object]]:
    try:
        for opcode, argument, _ in pickletools.genops(data):
            yield opcode.name, argument
    except (ValueError, OverflowError, KeyError) as error:
        raise ReadError("the pickle is cut off or damaged", seen=str(error)) from error


class _Machine:
    """The part of pickle's stack machine that builds plain containers."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def result(self) -> object:
        if len(self.stack) != 1 or isinstance(self.stack[0], _Mark):
            raise ReadError("a damaged pickle", seen=f"{len(self.stack)} values at its end")
        return self.stack[0]

    def do(self, name: str, argument: object) -> None:
        """Carry out one instruction."""
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _NEW:
            self.stack.append(_NEW[name]())
        elif name in _BYTES:
            self.stack.append(argument.decode("utf-8", "replace") if isinstance(argument, bytes) else str(argument))
        elif name in _GET:
            self.stack.append(self.memo[_index(argument)])
        elif name in _PUT:
            self.memo[_index(argument)] = self._value()
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self._value()
        elif name == "MARK":
            self.stack.append(_Mark())
        elif name not in ("PROTO", "FRAME"):
            self._build(name)

    def _build(self, name: str) -> None:
        if name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            values = self.stack[-count:]
            if len(values) < count or any(isinstance(value, _Mark) for value in values):
                raise IndexError("too few values")
            self.stack[-count:] = [tuple(values)]
        elif name == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif name == "LIST":
            self.stack.append(list(self._since_mark()))
        elif name == "DICT":
            self.stack.append(_pairs(self._since_mark()))
        elif name in ("APPEND", "APPENDS"):
            new = self._since_mark() if name == "APPENDS" else [self._pop()]
            target = self._value()
            if not isinstance(target, list):
                raise TypeError("not a list")
            target.extend(new)
        elif name in ("SETITEM", "SETITEMS"):
            new = self._since_mark() if name == "SETITEMS" else [self._pop(), self._pop()][::-1]
            mapping = self._value()
            if not isinstance(mapping, dict):
                raise TypeError("not a dict")
            mapping.update(_pairs(new))
        elif name == "POP":
            self._pop()
        else:
            raise ReadError(
                "the pickle builds more than plain containers, which a flight recorder never does",
                seen=f"instruction {name}",
                next_step="do not load it with pickle: it may run a program",
            )

    def _pop(self) -> object:
        value = self._value()
        self.stack.pop()
        return value

    def _value(self) -> object:
        if isinstance(self.stack[-1], _Mark):
            raise IndexError("a mark where a value belongs")
        return self.stack[-1]

    def _since_mark(self) -> list[object]:
        at = len(self.stack) - 1
        while not isinstance(self.stack[at], _Mark):
            at -= 1
            if at < 0:
                raise IndexError("no mark")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values


def _index(argument: object) -> int:
    return int(str(argument))


def _pairs(values: list[object]) -> dict[object, object]:
    """Keys are numbers and strings in a flight recorder; anything else cannot be a key here."""
    if len(values) % 2:
        raise ValueError("a key without a value")
    return {key: value for key, value in zip(values[::2], values[1::2], strict=True) if key is None or isinstance(key, str | int | float)}
