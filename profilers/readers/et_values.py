"""Arguments of an execution trace as the formulas take them, with the identity of the storages behind tensors.

A tensor is written as ``[tensor, storage, offset, elements, bytes of an element, device]``. The storage's number stands
for an address, which is used again after a free: what an operator makes anew is a new storage, whatever its number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wcbench.profilers.formulas import T
from wcbench.profilers.readers.et_nodes import Arguments, Node
from wcbench.profilers.readers.operator_schema import Schema, split
from wcbench.profilers.readers.operator_stream import NO_STORAGE, Stream

_TENSOR, _LISTS = "Tensor(", ("GenericList[", "Tuple[", "TensorList[")
_MAX_EXTENT, _MAX_DIMENSIONS, _MAX_DEPTH, _MAX_LIST = 1 << 53, 64, 4, 1 << 16
_NONE = "<None>"
_STRIDED = "aten::as_strided"
_NUMBERS = frozenset(f"Tensor({kind})" for kind in ("double", "long int", "long", "bool", "c10::complex<double>"))

# C++'s names, as torch prints them (older versions without "int"), to torch's own
_DTYPES: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::complex<c10::Half>": "complex32",
    "unsigned short": "uint16",
    "short unsigned int": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "long unsigned int": "uint64",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::qint8": "qint8",
    "c10::quint8": "quint8",
    "c10::qint32": "qint32",
}


class Values:
    """Turns a call's arguments into the formulas' form; call `begin` before each call, then `inputs`, then `outputs`.

    Attributes
    ----------
    trouble : why no formula may be asked about the call at hand, or None.
    no_strides : whether a call had none, so that tensors were taken as contiguous.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._alive: dict[int, int] = {}  # the file's number of a storage to ours
        self._devices: Counter[str] = Counter()
        self._views: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}  # extents and strides by tensor
        self.trouble: str | None = None
        self.no_strides = False

    @property
    def device(self) -> str:
        """Where most tensors lay; an accelerator before the CPU."""
        ranked = sorted(self._devices.items(), key=lambda item: (item[0].startswith("cpu"), -item[1]))
        return ranked[0][0] if ranked else "cpu"

    def begin(self) -> None:
        self.trouble = None

    def inputs(self, schema: Schema, node: Node) -> list[Any]:
        """The arguments in the schema's order; a plain number stands for a tensor that torch made of one.

        The dispatcher hands ``x + 1`` down as two tensors. A live capture sees the number, which is no data of the
        model: an operand without dimensions on the CPU, of the type that Python's numbers get, in memory that no call
        before knew as a tensor of that size.
        """
        return self._all(node.inputs, node, (), set())

    def _is_number(self, value: Any, kind: Any, shape: Any) -> bool:
        if (
            not isinstance(kind, str)
            or kind not in _NUMBERS
            or shape != []
            or not isinstance(value, list)
            or len(value) < 6
            or value[5] != "cpu"
        ):
            return False
        known = self._alive.get(value[1]) if _extent(value[1]) else None
        return known is None or self._stream.storages[known].nbytes != value[4]

    def outputs(self, schema: Schema, node: Node) -> list[Any]:
        """The results; those that the schema does not say to be an argument's memory are new storages."""
        held = {self._alive.get(number) for number in _storages(node.inputs)} - {None}
        return self._all(node.outputs, node, schema.aliased, held)

    def pass_by(self, schema: Schema, node: Node) -> None:
        """A call that is not counted: what it makes is older than anything that follows."""
        made = set(_storages(node.outputs)) - set(_storages(node.inputs))
        for number in made:
            self._alive.pop(number, None)

    def learn(self, node: Node, below: Sequence[Node]) -> None:
        """Strides of the tensors that a call makes, in versions that do not give them: from the `as_strided` in it.

        A tensor that is made otherwise is contiguous, or looks like the one that it is a view of.
        """
        made = {value[0] for value in node.outputs.values if isinstance(value, list) and value and _extent(value[0])}
        seen = self._views.get(_identity(node.inputs.values)) if "(a" in node.schema.rpartition("->")[2] else None
        for number in made:
            self._views.pop(number, None)
            if seen is not None and _extents(_at(node.outputs.shapes, 0)) == seen[0]:
                self._views[number] = seen
        for each in (node, *below):
            number = _identity(each.outputs.values)
            extents, strides = (_extents(_at(each.inputs.values, place)) for place in (1, 2))
            if each.name == _STRIDED and number in made and extents and strides and len(extents) == len(strides):
                self._views[number] = (extents, strides)

    def mark_gradients(self, node: Node) -> None:
        """The storages that autograd keeps as gradients of leaves."""
        for number in _storages(node.inputs):
            if number in self._alive:
                self._stream.storages[self._alive[number]].gradient = True

    def _all(self, given: Arguments, node: Node, aliased: Sequence[bool], held: set[int | None]) -> list[Any]:
        found: list[Any] = []
        for index, (value, kind) in enumerate(zip(given.values, given.types, strict=False)):
            shape = given.shapes[index] if index < len(given.shapes) else None
            stride = given.strides[index] if given.strides is not None and index < len(given.strides) else None
            if index and given is node.inputs and self._is_number(value, kind, shape):
                found.append(1)
                continue
            fresh = given is node.outputs and not (aliased[index] if index < len(aliased) else False)
            found.append(self._value(_Given(value, kind, shape, stride), _Making(fresh, held, node.name)))
        return found

    def _value(self, given: _Given, making: _Making, depth: int = 0) -> Any:
        value, kind, shape, stride = given
        if not isinstance(kind, str) or kind == "None" or value == _NONE:
            return None
        if kind.startswith(_TENSOR):
            return self._tensor(given, making)
        if kind.startswith(_LISTS) and _TENSOR in kind and depth < _MAX_DEPTH and isinstance(value, list):
            kinds = split(kind.partition("[")[2].rpartition("]")[0], _MAX_LIST)
            parts = zip(value, kinds, strict=False)
            return [
                self._value(_Given(each, inner, _at(shape, i), _at(stride, i)), making, depth + 1)
                for i, (each, inner) in enumerate(parts)
            ]
        if kind == "Double" and isinstance(value, str):
            return _real(value)
        return value

    def _tensor(self, given: _Given, making: _Making) -> T | None:
        kind = given.kind[len(_TENSOR) : -1]
        if kind.startswith("nullptr"):
            return None  # an optional tensor that was not given
        extents = _extents(given.shape)
        if extents is None or not isinstance(given.value, list) or len(given.value) < 5:
            self.trouble = "the trace's description of a tensor is damaged"
            return None
        number, offset, size = (given.value[place] for place in (1, 2, 4))
        if not (_extent(number) and _extent(offset) and _extent(size)):
            self.trouble = "the trace's description of a tensor is damaged"
            return None
        if len(given.value) > 5 and isinstance(given.value[5], str) and given.value[5]:
            self._devices[given.value[5]] += 1
        dtype = _DTYPES.get(kind, kind)
        if number == 0 and size == 0 and math.prod(extents) > 0:
            self.trouble = "a tensor has no dense storage (sparse, or opaque)"
            return T(NO_STORAGE, 0, 0, extents, (0,) * len(extents), dtype)
        ours = self._storage(number, making)
        return T(ours, self._stream.versions[ours], offset, extents, self._strides(given, extents), dtype)

    def _strides(self, given: _Given, extents: tuple[int, ...]) -> tuple[int, ...]:
        strides = _extents(given.stride)
        if strides is not None and len(strides) == len(extents):
            return strides
        self.no_strides |= len(extents) > 0
        known = self._views.get(given.value[0]) if type(given.value[0]) is int else None
        if known is not None and known[0] == extents:
            return known[1]
        return tuple(math.prod(extents[place + 1 :]) for place in range(len(extents)))

    def _storage(self, number: int, making: _Making) -> int:
        known = self._alive.get(number)
        fresh = making.fresh and (known is None or known not in making.held)
        if known is None or fresh:
            known = self._alive[number] = self._stream.storage(fresh=fresh, producer=making.producer)
            making.held.add(known)  # two results of one call may share it
        return known


class _Given(NamedTuple):
    """An argument as the trace has it."""

    value: Any
    kind: Any
    shape: Any
    stride: Any


class _Making:
    """How a tensor comes about: whether the call makes it, which storages the call already holds, and its name."""

    __slots__ = ("fresh", "held", "producer")

    def __init__(self, fresh: bool, held: set[int | None], producer: str) -> None:
        self.fresh, self.held, self.producer = fresh, held, producer


def _storages(given: Arguments) -> list[int]:
    """The file's numbers of the storages of all tensors among the arguments."""
    found: list[int] = []
    waiting = [(value, kind, 0) for value, kind in zip(given.values, given.types, strict=False)]
    while waiting:
        value, kind, depth = waiting.pop()
        if not isinstance(kind, str) or _TENSOR not in kind or not isinstance(value, list):
            continue
        if kind.startswith(_TENSOR):
            if len(value) > 1 and _extent(value[1]):
                found.append(value[1])
        elif depth < _MAX_DEPTH:
            kinds = split(kind.partition("[")[2].rpartition("]")[0], _MAX_LIST)
            waiting += [(each, inner, depth + 1) for each, inner in zip(value, kinds, strict=False)]
    return found


def _extent(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MAX_EXTENT


def _extents(given: Any) -> tuple[int, ...] | None:
    if not isinstance(given, list) or len(given) > _MAX_DIMENSIONS or not all(map(_extent, given)):
        return None
    return tuple(given)


def _identity(values: Sequence[Any]) -> int:
    """The trace's number of the first tensor; -1 where the first value is none."""
    first = _at(values, 0)
    return first[0] if isinstance(first, list) and first and _extent(first[0]) else -1


def _at(items: Any, index: int) -> Any:
    return items[index] if isinstance(items, list) and index < len(items) else None


def _real(text: str) -> float | None:
    try:
        return float(text[:64])
    except ValueError:
        return None
