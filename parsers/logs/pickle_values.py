"""A pickle read as data. `pickle.load` builds whatever the file says, so a foreign file can run any
program. Here the instructions are only listed (`pickletools.genops`), and a small stack machine
carries out those that build plain containers: numbers, strings, lists, tuples, dicts. Any other
is an error that names it. Pickle protocols 0 to 5."""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Iterator

from busbw.errors import ReadError

MOST_BYTES = 256 * 1024 * 1024


def loads(data: bytes) -> object:
    """The value in a pickle, made of None, bool, int, float, str, list, tuple and dict. Containers
    may be shared, or contain themselves.

    Raises:
        ReadError: it is cut off, damaged or too large, or it wants to build anything but plain
        containers; `seen` names the instruction.
    """
    if len(data) > MOST_BYTES:
        raise ReadError(
            f"a pickle of more than {MOST_BYTES} bytes is not read", seen=f"{len(data)} bytes"
        )
    return load_next(io.BytesIO(data))


def load_next(stream: io.BytesIO) -> object:
    """The value of the next pickle in the stream, which then stands behind it. Raises ReadError as
    `loads` does."""
    machine = _Machine()
    for name, argument in _instructions(stream):
        if name == "STOP":
            return machine.result()
        step = _STEPS.get(name)
        if step is None:
            raise ReadError(
                "the pickle builds more than plain containers, which a flight recorder never does",
                seen=f"instruction {name}",
                next_step="do not load it with pickle: it may run a program",
            )
        try:
            step(machine, argument)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ReadError("a damaged pickle", seen=f"{name}: {error}") from error
    raise ReadError("the pickle ends before its end", seen=f"{stream.tell()} bytes without a STOP")


def _instructions(data: io.BytesIO) -> Iterator[tuple[str, object]]:
    try:
        for opcode, argument, _ in pickletools.genops(data):
            yield opcode.name, argument
    except (ValueError, OverflowError, KeyError) as error:
        raise ReadError("the pickle is truncated or damaged", seen=str(error)) from error


class _Mark:
    """Where the items of the next container begin on the stack."""


class _Machine:
    """The stack and the memo of pickle's machine. `_STEPS` says what each instruction does to
    them."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def result(self) -> object:
        if len(self.stack) != 1 or isinstance(self.stack[0], _Mark):
            raise ReadError("a damaged pickle", seen=f"{len(self.stack)} values at its end")
        return self.stack[0]

    def top(self) -> object:
        """The last value, which stays on the stack."""
        if isinstance(self.stack[-1], _Mark):
            raise IndexError("a mark where a value belongs")
        return self.stack[-1]

    def pop(self) -> object:
        """The last value, taken off the stack."""
        value = self.top()
        self.stack.pop()
        return value

    def pop_to_mark(self) -> list[object]:
        """The values above the last mark, taken off the stack with it."""
        at = len(self.stack) - 1
        while not isinstance(self.stack[at], _Mark):
            at -= 1
            if at < 0:
                raise IndexError("no mark")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values


_Step = Callable[[_Machine, object], None]


def _push(machine: _Machine, argument: object) -> None:
    machine.stack.append(argument)


def _push_text(machine: _Machine, argument: object) -> None:
    text = argument.decode("utf-8", "replace") if isinstance(argument, bytes) else str(argument)
    machine.stack.append(text)


def _constant(value: object) -> _Step:
    return lambda machine, _: machine.stack.append(value)


def _empty(container: Callable[[], object]) -> _Step:
    return lambda machine, _: machine.stack.append(container())


def _collect(container: Callable[[list[object]], object]) -> _Step:
    """Makes a container of the values above the last mark."""
    return lambda machine, _: machine.stack.append(container(machine.pop_to_mark()))


def _tuple_of(count: int) -> _Step:
    def step(machine: _Machine, argument: object) -> None:
        values = machine.stack[-count:]
        if len(values) < count or any(isinstance(value, _Mark) for value in values):
            raise IndexError("too few values")
        machine.stack[-count:] = [tuple(values)]

    return step


def _drop(machine: _Machine, argument: object) -> None:
    machine.pop()


def _fetch(machine: _Machine, argument: object) -> None:
    machine.stack.append(machine.memo[int(str(argument))])


def _store(machine: _Machine, argument: object) -> None:
    machine.memo[int(str(argument))] = machine.top()


def _store_next(machine: _Machine, argument: object) -> None:
    machine.memo[len(machine.memo)] = machine.top()


def _extend(machine: _Machine, values: list[object]) -> None:
    target = machine.top()
    if not isinstance(target, list):
        raise TypeError("not a list")
    target.extend(values)


def _update(machine: _Machine, values: list[object]) -> None:
    target = machine.top()
    if not isinstance(target, dict):
        raise TypeError("not a dict")
    target.update(_pairs(values))


def _set_item(machine: _Machine, argument: object) -> None:
    value = machine.pop()
    key = machine.pop()
    _update(machine, [key, value])


def _pairs(values: list[object]) -> dict[object, object]:
    """Keys are numbers and strings in a flight recorder; anything else cannot be a key here."""
    if len(values) % 2:
        raise ValueError("a key without a value")
    pairs: dict[object, object] = {}
    for key, value in zip(values[::2], values[1::2], strict=True):
        if key is None or isinstance(key, str | int | float):
            pairs[key] = value
    return pairs


def _ignore(machine: _Machine, argument: object) -> None:
    """The protocol's number and the length of a frame change nothing."""


_SAME: tuple[tuple[_Step, str], ...] = (
    (_push, "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT"),
    (_push, "UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8"),
    (_push_text, "STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8"),
    (_fetch, "GET BINGET LONG_BINGET"),
    (_store, "PUT BINPUT LONG_BINPUT"),
    (_ignore, "PROTO FRAME"),
)
"""Steps that several instructions share."""
_STEPS: dict[str, _Step] = {name: step for step, names in _SAME for name in names.split()} | {
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "EMPTY_LIST": _empty(list),
    "EMPTY_DICT": _empty(dict),
    "EMPTY_TUPLE": _constant(()),
    "MARK": _empty(_Mark),
    "LIST": _collect(list),
    "TUPLE": _collect(tuple),
    "DICT": _collect(_pairs),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "MEMOIZE": _store_next,
    "APPEND": lambda machine, _: _extend(machine, [machine.pop()]),
    "APPENDS": lambda machine, _: _extend(machine, machine.pop_to_mark()),
    "SETITEM": _set_item,
    "SETITEMS": lambda machine, _: _update(machine, machine.pop_to_mark()),
    "POP": _drop,
}
"""Every instruction that a dump may contain, of pickle protocols 0 to 5."""
