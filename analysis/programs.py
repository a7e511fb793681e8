"""Mixed-integer programs, solved to optimality or not at all: HiGHS behind checks that do not trust it.

HiGHS takes a relative gap of 1e-4 for optimal by default, and gap 0 has its oddities; so the gap is set to 0, whole
numbers are checked and rounded, the constraints are checked again on the rounded answer, and the objective is computed
anew here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from wcbench.errors import WcbenchError

INTEGRALITY = 1e-6
FEASIBILITY = 1e-6
_INFEASIBLE = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """An optimum: the variables (whole ones rounded), the objective computed from them, and what the solver proved.

    ``bound`` is the dual bound, no solution can be below it; ``gap`` is the relative gap, 0 for a proven optimum.
    """

    values: Floats
    objective: float
    bound: float
    gap: float

    @property
    def chosen(self) -> tuple[int, ...]:
        """The variables that are on, for programs of 0-1 variables."""
        return tuple(int(place) for place in np.flatnonzero(self.values > 0.5))


def rows(*parts: tuple[Any, float, float]) -> LinearConstraint:
    """Constraints lower <= A x <= upper from blocks (A, lower, upper); a 1-D A is one row."""
    blocks = [sparse.csr_array(np.atleast_2d(a) if isinstance(a, np.ndarray) else a) for a, _, _ in parts]
    heights = [block.shape[0] for block in blocks]
    lower = np.repeat([low for _, low, _ in parts], heights)
    upper = np.repeat([high for _, _, high in parts], heights)
    return LinearConstraint(sparse.vstack(blocks, format="csr"), lower, upper)


def minimise(objective: Floats, constraints: LinearConstraint, whole: NDArray[np.bool_] | None = None) -> Answer | None:
    """Minimum of objective . x over 0 <= x <= 1, x whole where ``whole`` says so (everywhere by default).

    None where no x satisfies the constraints. Raises WcbenchError where the solver ends without a proven optimum or its
    answer does not stand the checks.
    """
    whole = np.ones(len(objective), bool) if whole is None else whole
    options: dict[str, Any] = {"mip_rel_gap": 0}
    found = milp(
        objective, integrality=whole.astype(int), bounds=Bounds(0, 1), constraints=constraints, options=options
    )
    if found.status == _INFEASIBLE:
        return None
    if found.status != 0 or found.x is None:
        raise WcbenchError(f"The solver ended without a proven optimum: {found.message}")
    values = _checked(np.asarray(found.x, np.float64), constraints, whole)
    reached = math.fsum(objective * values)
    # a program without whole variables has no branch and bound: its own optimum is the bound
    bound = reached if found.mip_dual_bound is None else float(found.mip_dual_bound)
    gap = 0.0 if found.mip_gap is None else float(found.mip_gap)
    if reached - bound > 1e-6 * max(1.0, abs(reached)):
        raise WcbenchError(f"The solver calls {reached!r} optimal but proved no more than {bound!r}.")
    return Answer(values, reached, bound, gap)


def _checked(values: Floats, constraints: LinearConstraint, whole: NDArray[np.bool_]) -> Floats:
    """The values with whole ones rounded; raises where they were not whole, or rounding breaks a constraint."""
    rounded = np.where(whole, np.round(values), np.clip(values, 0, 1))
    if np.abs(rounded - values)[whole].max(initial=0) > INTEGRALITY:
        raise WcbenchError("The solver gave fractions where whole numbers were asked for.")
    left = constraints.A @ rounded
    slack = FEASIBILITY * np.maximum(1, np.abs(left))
    if (left < constraints.lb - slack).any() or (left > constraints.ub + slack).any():
        raise WcbenchError("The solver's answer breaks a constraint once its whole numbers are rounded.")
    return rounded
