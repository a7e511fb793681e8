"""Fourier transforms and dense linear algebra.

A complex transform of N points counts 5 N log2 N FLOPs, a real one half of it: the convention of the FFTW authors
(Frigo and Johnson, "The design and implementation of FFTW3", 2005), not the count of any one algorithm. Factorizations
take the leading terms of Golub and Van Loan, "Matrix Computations": Cholesky n^3/3, LU 2n^3/3, QR 2mn^2 - 2n^3/3, a
triangular solve n^2 for each column. None is matrix-class. What iterates (eigenvalues, singular values) is not counted.
"""

from __future__ import annotations

from math import log2, prod

from wcbench.profilers.formulas.data import aten
from wcbench.profilers.formulas.extent import T
from wcbench.profilers.formulas.model import Cost, Uncounted, formula
from wcbench.profilers.formulas.traffic import Call


def fft_flops(points: int, batch: int, per_point: float) -> int:
    """``per_point`` * N log2 N for each of a batch of transforms, rounded."""
    return round(batch * per_point * points * log2(points)) if points > 1 else 0


@formula(*aten("_fft_c2c _fft_r2c _fft_c2r"))
def fft(call: Call) -> Cost:
    """Over several dimensions N is their product. A normalization multiplies each result."""
    x, dims, normalization = call.args[:3]
    real = call.result() if call.name == "aten::_fft_c2r" else x  # the side that has all N points
    points = prod(real.shape[dim] for dim in dims)
    flops = fft_flops(points, real.numel // max(1, points), 5 if call.name == "aten::_fft_c2c" else 2.5)
    return Cost(flops + (call.result().numel if normalization else 0))


def _square(matrix: T) -> tuple[int, int]:
    """(matrices in the batch, n)."""
    return prod(matrix.shape[:-2]), matrix.shape[-1]


@formula(*aten("linalg_cholesky_ex linalg_cholesky"))
def cholesky(call: Call) -> Cost:
    batch, n = _square(call.args[0])
    return Cost(batch * n**3 // 3)


@formula(*aten("linalg_lu_factor_ex linalg_lu_factor linalg_lu linalg_ldl_factor_ex"))
def lu(call: Call) -> Cost:
    """m*k^2 - k^3/3 with k the shorter side, 2n^3/3 where it is square; LDL, symmetric, half of it."""
    x: T = call.args[0]
    batch, k, longer = prod(x.shape[:-2]), min(x.shape[-2:]), max(x.shape[-2:])
    flops = batch * (longer * k * k - k**3 // 3)
    return Cost(flops // 2 if "ldl" in call.name else flops)


@formula(*aten("_linalg_det _linalg_slogdet"))
def det(call: Call) -> Cost:
    """LU, and the product of its diagonal (slogdet: a logarithm and a sum)."""
    batch, n = _square(call.args[0])
    return Cost(batch * (2 * n**3 // 3 + n * (2 if "slogdet" in call.name else 1)))


@formula(*aten("linalg_inv_ex inverse linalg_inv cholesky_inverse"))
def inverse(call: Call) -> Cost:
    """2n^3; from a Cholesky factor 2n^3/3."""
    batch, n = _square(call.args[0])
    return Cost(batch * (2 * n**3 // 3 if "cholesky" in call.name else 2 * n**3))


@formula("aten::_linalg_solve_ex")
def solve(call: Call) -> Cost:
    """LU, and two triangular solves for each right-hand side."""
    batch, n = _square(call.args[0])
    return Cost(batch * (2 * n**3 // 3) + 2 * n * call.result().numel)


@formula(*aten("linalg_lu_solve cholesky_solve _cholesky_solve_helper linalg_ldl_solve"))
def factored_solve(call: Call) -> Cost:
    """Two triangular solves: 2n for each element of the result."""
    factor = call.args[1] if "cholesky" in call.name else call.args[0]
    return Cost(2 * factor.shape[-1] * call.result().numel)


@formula(*aten("linalg_solve_triangular triangular_solve"))
def triangular_solve(call: Call) -> Cost:
    """n for each element of the result."""
    factor = call.args[1] if call.name == "aten::triangular_solve" else call.args[0]
    return Cost(factor.shape[-1] * call.result().numel)


@formula(*aten("linalg_qr geqrf linalg_householder_product"))
def qr(call: Call) -> Cost:
    """Reflections 2mn^2 - 2n^3/3, and as many again where Q is made of them."""
    x = call.args[0]
    batch, m, n = prod(x.shape[:-2]), max(x.shape[-2:]), min(x.shape[-2:])
    mode = call.arg(1, "mode", "reduced") if call.name == "aten::linalg_qr" else "r"
    return Cost(batch * (2 * m * n * n - 2 * n**3 // 3) * (1 if mode == "r" else 2))


@formula("aten::ormqr")
def ormqr(call: Call) -> Cost:
    """Each of k reflections changes every element of the other matrix by 4 FLOPs."""
    tau, other = call.args[1], call.args[2]
    return Cost(4 * other.numel * tau.shape[-1])


@formula(*aten("linalg_cross cross"))
def cross(call: Call) -> Cost:
    """Two products and a difference for each component."""
    return Cost(3 * call.result().numel)


@formula("aten::lu_unpack")
def lu_unpack(_: Call) -> Cost:
    """Triangles are copied, the permutation is written."""
    return Cost()


@formula(
    *aten("_linalg_svd _linalg_eigh linalg_eig linalg_eigvals _linalg_eigvals linalg_lstsq linalg_matrix_exp"),
    *aten("linalg_pinv linalg_polar linalg_matrix_sqrth"),
)
def iterative(_: Call) -> Cost:
    """Listed, so that the reason is given."""
    raise Uncounted("how often the algorithm iterates depends on the data")
