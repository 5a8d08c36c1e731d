"""What a pickle of torch says about tensors, read without calling anything that it names.

`torch.load(weights_only=True)` calls a list of functions with whatever the file gives them, and puts
whatever it gives into dictionaries: some kilobytes can fill the memory, or keep it busy for ever. Here a
pickle is a list of steps on a stack; tensors are descriptions, and all else is `OTHER`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

_MOST_STEPS: Final = 4_000_000  # a million strings beside the tensors are two million
_TENSOR: Final = ("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2")
_PARAMETER: Final = (
    "torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state",
)  # fmt: skip
_ORDERED: Final = "collections OrderedDict"
# What files with tensors name besides names of torch; neither is ever called.
_PLAIN: Final = frozenset(
    {"builtins set", "builtins complex", "__builtin__ set", "__builtin__ complex",
     "collections Counter", _ORDERED}
)  # fmt: skip


class Other:
    """A value that holds no tensor for us."""


OTHER: Final = Other()
_MARK: Final = Other()


class NotOnlyTensors(Exception):
    """The pickle names something that files of tensors do not have."""


@dataclass(frozen=True)
class Name:
    """Of a function or a class."""

    text: str


@dataclass(frozen=True, kw_only=True)
class StorageAt:
    kind: str  # as torch names its class, e.g. "FloatStorage"
    key: str
    numbers: int


@dataclass(frozen=True, kw_only=True)
class TensorAt:
    storage: StorageAt
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    negative: bool = False
    """Its numbers are those of the storage with the other sign."""


@dataclass
class TorchPickle:
    """Reads one pickle; `storages` are all that it named."""

    storages: dict[str, StorageAt] = field(default_factory=dict)
    _stack: list[Any] = field(default_factory=list)
    _memo: dict[int, Any] = field(default_factory=dict)

    def read(self, file: IO[bytes]) -> Any:
        """The value: a TensorAt, a dict whose keys are strings, a number, a string, a list, or OTHER;
        `file` is then behind the pickle. Raises NotOnlyTensors; ValueError, LookupError and TypeError
        for what is no pickle."""
        for count, (step, value, _) in enumerate(pickletools.genops(file)):
            if count > _MOST_STEPS:
                raise NotOnlyTensors(f"more than {_MOST_STEPS:,} values")
            if step.name == "STOP":
                return self._stack.pop()
            self._do(step.name, value)
        raise ValueError("it has no end")

    def _do(self, name: str, value: Any) -> None:
        stack = self._stack
        if name in _PUSHED:
            stack.append(value)
        elif name in _MADE:
            stack.append(_MADE[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[value] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[value])
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(stack[-count:])]
        elif name in _STEPS:
            _STEPS[name](self, value)
        elif name not in ("PROTO", "FRAME"):
            raise NotOnlyTensors(f"the step {name}")

    # --- steps -----------------------------------------------------------------------------------

    def _marked(self) -> list[Any]:
        """What lies above the last mark."""
        at = len(self._stack)
        while True:
            at -= 1
            if self._stack[at] is _MARK:
                found = self._stack[at + 1 :]
                del self._stack[at:]
                return found

    def _tuple(self, _: Any) -> None:
        found = tuple(self._marked())
        self._stack.append(found)

    def _append(self, _: Any) -> None:
        item = self._stack.pop()
        _extend(self._stack[-1], [item])

    def _appends(self, _: Any) -> None:
        items = self._marked()
        _extend(self._stack[-1], items)

    def _set_item(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _fill(self._stack[-1], [key, value])

    def _set_items(self, _: Any) -> None:
        items = self._marked()
        _fill(self._stack[-1], items)

    def _drop_marked(self, _: Any) -> None:
        """Of a set, or attributes of an object: they hold no tensor."""
        self._marked()

    def _drop(self, _: Any) -> None:
        self._stack.pop()

    def _name(self, value: Any) -> None:
        self._stack.append(_allowed(str(value)))

    def _name_on_stack(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(_allowed(f"{_text(module)} {_text(name)}"))

    def _call(self, _: Any) -> None:
        given, called = self._stack.pop(), self._stack.pop()
        self._stack.append(_made(called, given))

    def _storage(self, _: Any) -> None:
        what, kind, key, _, numbers, *more = self._stack.pop()
        if what != "storage" or not isinstance(kind, Name) or (more and more[0] is not None):
            raise NotOnlyTensors("a storage of another kind")
        found = StorageAt(
            kind=kind.text.rpartition(" ")[2], key=_text(key), numbers=_count(numbers)
        )
        if self.storages.setdefault(found.key, found) != found:
            raise ValueError(f"two storages {found.key}")
        self._stack.append(found)


_PUSHED: Final = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "BINFLOAT", "FLOAT", "BINUNICODE",
     "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
     "BINSTRING", "SHORT_BINSTRING", "STRING"}
)  # fmt: skip
_MADE: Final[Mapping[str, Callable[[], Any]]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": Other, "MARK": lambda: _MARK,
}  # fmt: skip
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_STEPS: Final[Mapping[str, Callable[[TorchPickle, Any], None]]] = {
    "TUPLE": TorchPickle._tuple, "APPEND": TorchPickle._append, "APPENDS": TorchPickle._appends,
    "SETITEM": TorchPickle._set_item, "SETITEMS": TorchPickle._set_items,
    "ADDITEMS": TorchPickle._drop_marked, "BUILD": TorchPickle._drop, "POP": TorchPickle._drop,
    "GLOBAL": TorchPickle._name, "STACK_GLOBAL": TorchPickle._name_on_stack,
    "REDUCE": TorchPickle._call, "NEWOBJ": TorchPickle._call, "BINPERSID": TorchPickle._storage,
}  # fmt: skip


def _extend(target: Any, items: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif target is not OTHER:
        raise TypeError("values for what is no list")


def _fill(target: Any, items: list[Any]) -> None:
    """Only strings and numbers are keys: to hash a tuple of tuples may last for ever."""
    if target is OTHER:
        return
    if not isinstance(target, dict) or len(items) % 2:
        raise TypeError("entries for what is no dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if isinstance(key, str | int):
            target[str(key)] = value


def _allowed(name: str) -> Name:
    module, _, rest = name.rpartition(" ")
    if name not in _PLAIN and (module.split(".")[0] != "torch" or "." in rest):
        raise NotOnlyTensors(name[:100])
    return Name(name)


def _made(called: Any, given: Any) -> Any:
    if not isinstance(called, Name):
        raise NotOnlyTensors("a call of something else")
    if called.text == _ORDERED and given == ():
        return {}
    if called.text in _PARAMETER:
        return given[0]
    if called.text not in _TENSOR or not isinstance(given[0], StorageAt):
        return OTHER
    storage, offset, shape, stride, *more = given
    marks = more[2] if len(more) > 2 and more[2] else {}
    if not isinstance(marks, dict) or set(marks) - {"neg"}:  # conjugated, and what is unknown
        return OTHER
    return TensorAt(
        storage=storage,
        offset=_count(offset),
        shape=tuple(map(_count, shape)),
        stride=tuple(map(_count, stride)),
        negative=bool(marks.get("neg")),
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 60:
        raise ValueError(f"a {type(value).__name__} is no count")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is no name")
    return value
