"""The registry of operator formulas, and `work`, which applies them to a call.

A formula is a short function on one call's shapes; it is registered by ``@formula("aten::name", ...)``, and a name
that is registered twice raises. In-place variants (``aten::add_``) and overloads (``.out``) need no entry of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wcbench.profilers.formulas.extent import T, distinct_elements, extent_bytes
from wcbench.profilers.formulas.traffic import Access, Call, default_accesses, distinct, tensors

__all__ = [
    "REGISTRY",
    "Access",
    "Call",
    "Cost",
    "T",
    "Uncounted",
    "Work",
    "distinct_elements",
    "extent_bytes",
    "formula",
    "known",
    "work",
]


class Uncounted(Exception):  # noqa: N818  (an answer, not an error)
    """Raised by a formula whose operator's work depends on data that a description does not hold."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a formula says of one call.

    Parameters
    ----------
    other : FLOPs outside matrix products: elementwise, transcendental, reductions.
    matrix : FLOPs of convolutions, matrix products, attention and recurrences.
    accesses : what is moved; None for the default (each argument read, each result written once).
    note : a convention or bound that this call's numbers rest on.
    half : the same call counted without the masked half of causal attention, where that differs.
    """

    other: int = 0
    matrix: int = 0
    accesses: Iterable[Access] | None = None
    note: str | None = None
    half: Cost | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs and bytes of one call; ``covered`` is False where no formula knows its FLOPs, and ``note`` says why."""

    flops_matrix: int
    flops_all: int
    accesses: tuple[Access, ...]
    covered: bool
    note: str | None = None

    @property
    def bytes_read(self) -> int:
        """Bytes."""
        return sum(access.nbytes for access in self.accesses if not access.write)

    @property
    def bytes_written(self) -> int:
        """Bytes."""
        return sum(access.nbytes for access in self.accesses if access.write)


Formula = Callable[[Call], Cost]
REGISTRY: dict[str, Formula] = {}
SPARSE: dict[str, Formula] = {}
"""Formulas of calls that take or give a sparse tensor (module `sparse`), by full name."""


def formula(*names: str, sparse: bool = False) -> Callable[[Formula], Formula]:
    """Register a formula under these operators, given as ``namespace::name`` or as ``namespace::name.overload``."""
    registry = SPARSE if sparse else REGISTRY

    def register(function: Formula) -> Formula:
        for name in names:
            if name in registry:
                raise ValueError(f"Two formulas are registered for {name}: {registry[name]} and {function}.")
            registry[name] = function
        return function

    return register


def find(name: str, overload: str = "") -> Formula | None:
    """The overload's own formula, else the operator's, else that of the operator whose in-place variant it is."""
    names = [name]
    if name.endswith("_") and not name.endswith("__"):
        names.append(name[:-1])
    for each in names:
        found = REGISTRY.get(f"{each}.{overload}") or REGISTRY.get(each)
        if found is not None:
            return found
    return None


def known(name: str, overload: str = "") -> bool:
    """Whether a formula is registered for the operator (it may still find a call's work to depend on data)."""
    return find(name, overload) is not None


def work(call: Call, *, causal: str = "full") -> Work:
    """FLOPs and bytes of one call.

    Never raises on what an operator was given: whatever no formula covers comes back with ``covered=False``, a note
    that names the operator, FLOPs of 0, and the bytes of its operands, which are known without a formula.

    Parameters
    ----------
    causal : ``full`` counts every score of causal attention, as published tables do; ``half`` leaves the masked half
        out. Other operators are the same under both.
    """
    if causal not in ("full", "half"):
        raise ValueError(f"causal must be 'full' or 'half', not {causal!r}.")
    function = find(call.name, call.overload)
    if any(tensor.sparse for tensor in tensors([call.args, call.kwargs, call.out])):
        function = SPARSE.get(call.name)  # what the operator does to dense tensors says nothing of sparse ones
    try:
        if function is None:
            return _uncovered(call, "no formula")
        cost = function(call)
        if causal == "half" and cost.half is not None:
            cost = cost.half
        accesses = default_accesses(call) if cost.accesses is None else cost.accesses
        return Work(cost.matrix, cost.matrix + cost.other, distinct(accesses), True, cost.note)
    except Uncounted as why:
        return _uncovered(call, str(why))
    except Exception as error:  # whatever a foreign operator passes must not end a run
        return _uncovered(call, f"the formula does not fit these arguments ({type(error).__name__}: {error})")


def _uncovered(call: Call, why: str) -> Work:
    name = f"{call.name}.{call.overload}" if call.overload else call.name
    try:
        accesses = distinct(default_accesses(call))
    except Exception:  # a dtype without a known size, say
        accesses = ()
    return Work(0, 0, accesses, False, f"{name}: {why}")
