"""What an operator call reads and writes: the default for every operator, and the pieces that others are made of.

Default: each tensor argument is read once, each result is written once, and what the schema marks as written in place
is read and written (``out=`` arguments are written only). Two arguments that cover the same addresses of one storage
(``mm(x, x.t())``) are one access per direction. A result that shares its storage with an argument which is not
written is a view: nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wcbench.profilers.formulas.extent import T, extent_bytes, kind_of, same_bytes_key


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call: ``aten::addmm`` without its overload, and the arguments in the schema's order.

    Tensors are replaced by their descriptions, in ``out`` too; arguments that took their default may be absent.
    ``writes`` are the positions, ``writes_kwargs`` the names, of the arguments that the schema marks as written.
    """

    name: str
    overload: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    out: Any = None
    writes: tuple[int, ...] = ()
    writes_kwargs: tuple[str, ...] = ()

    def arg(self, index: int, name: str, default: Any = None) -> Any:
        """An argument that the schema has at ``index``, whether it was given by position or by name."""
        return self.args[index] if index < len(self.args) else self.kwargs.get(name, default)

    def option(self, name: str, default: Any = None) -> Any:
        """An argument that can only be given by name."""
        return self.kwargs.get(name, default)

    def result(self, index: int = 0) -> T:
        """A tensor that the call returned, or where it returned none the tensor that it changed."""
        found = tensors(self.out) or targets(self)
        return found[index]


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes that an operator moves of one tensor.

    ``kind`` is contiguous, strided, broadcast (by strides), gather or scatter (addresses depend on data);
    ``nbytes`` are distinct bytes, for gather and scatter the index count times the bytes of a row.
    """

    tensor: T
    write: bool
    kind: str
    nbytes: int


def tensors(value: Any) -> list[T]:
    """All tensors in an argument or result, however nested, in order."""
    return list(_walk(value))


def _walk(value: Any) -> Iterator[T]:
    if isinstance(value, T):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _walk(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _walk(item)


def targets(call: Call) -> list[T]:
    """What the call writes in place, or into an ``out=`` argument."""
    placed = [call.args[index] for index in call.writes if index < len(call.args)]
    return tensors(placed) + tensors([call.kwargs[name] for name in call.writes_kwargs if name in call.kwargs])


def inputs(call: Call) -> list[T]:
    """All tensors among the arguments but those that are only written (``out=``)."""
    return tensors(call.args) + tensors({k: v for k, v in call.kwargs.items() if k not in call.writes_kwargs})


def fresh(call: Call) -> list[T]:
    """Results in memory of their own, neither a written argument nor a view of an argument."""
    held = {tensor.storage for tensor in (*inputs(call), *targets(call))}
    return [tensor for tensor in tensors(call.out) if tensor.storage not in held]


def read(*found: T | Iterable[T] | None) -> list[Access]:
    """One whole read of each of these tensors; None stands for an optional argument that was not given."""
    return [_whole(tensor, write=False) for tensor in _flat(found)]


def write(*found: T | Iterable[T] | None) -> list[Access]:
    """One whole write of each of these tensors."""
    return [_whole(tensor, write=True) for tensor in _flat(found)]


def _flat(found: Iterable[Any]) -> list[T]:
    return tensors(list(found))


def _whole(tensor: T, *, write: bool) -> Access:
    return Access(tensor, write, kind_of(tensor), extent_bytes(tensor))


def part(tensor: T, nbytes: int, *, write: bool = False) -> Access:
    """A statically known part of a tensor (a slice that is copied out, say)."""
    return Access(tensor, write, kind_of(tensor), min(nbytes, extent_bytes(tensor)))


def gather(tensor: T, rows: int, row_elements: int = 1) -> Access:
    """``rows`` rows read at addresses that are data; a row met twice counts twice, since which repeat is data too."""
    return Access(tensor, False, "gather", rows * row_elements * tensor.itemsize)


def scatter(tensor: T, rows: int, row_elements: int = 1, *, accumulate: bool = False) -> list[Access]:
    """``rows`` rows written at addresses that are data; where they accumulate they are read before."""
    nbytes = rows * row_elements * tensor.itemsize
    writes = [Access(tensor, True, "scatter", nbytes)]
    return [Access(tensor, False, "gather", nbytes), *writes] if accumulate else writes


def scatter_new(tensor: T, rows: int, row_elements: int = 1) -> list[Access]:
    """A result that is filled and then scattered into: its distinct bytes are written once, of which the rows (as far
    as they fit) count as scatter and the rest as fill."""
    whole = extent_bytes(tensor)
    rows_bytes = min(whole, rows * row_elements * tensor.itemsize)
    found = [Access(tensor, True, "scatter", rows_bytes)] if rows_bytes else []
    return [*found, Access(tensor, True, kind_of(tensor), whole - rows_bytes)] if whole > rows_bytes else found


def stencil(tensor: T, nbytes: int) -> Access:
    """Reads at data-dependent places that lie densely, as sampling a picture does: at most the whole tensor."""
    return Access(tensor, False, "gather", min(nbytes, extent_bytes(tensor)))


def default_accesses(call: Call) -> list[Access]:
    """Every argument read, every result written; see the module's docstring."""
    return [*read(inputs(call)), *writes(call)]


def writes(call: Call) -> list[Access]:
    """What is written in place, and the results that have memory of their own."""
    return write(targets(call), fresh(call))


def write_only(call: Call) -> list[Access]:
    """Targets are overwritten without being read; the other arguments are read (``copy_``, random fills)."""
    overwritten = {same_bytes_key(tensor) for tensor in targets(call)}
    return [*read([t for t in inputs(call) if same_bytes_key(t) not in overwritten]), *writes(call)]


def distinct(accesses: Iterable[Access]) -> tuple[Access, ...]:
    """Whole accesses of the same addresses in the same direction are one; empty ones are none.

    Gathers and scatters stay as they are: how much of them coincides is data.
    """
    kept: dict[object, Access] = {}
    for access in accesses:
        if access.nbytes:
            indirect = access.kind in ("gather", "scatter")
            key = object() if indirect else (same_bytes_key(access.tensor), access.write)
            kept.setdefault(key, access)
    return tuple(kept.values())
