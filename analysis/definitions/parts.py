"""The parts of the compositions, and which category of operators or kernels belongs to which: one table.

Columns are the compositions of the catalogue. Fused and written-out attention must land in one part, so that the same
model in two forms stays one workload: batched products (almost all of them attention) stand with attention.
"""

from __future__ import annotations

from collections.abc import Mapping

from wcbench import kernels

FLOP_PARTS = ("conv", "gemm", "attention", "elementwise", "norm", "reduction", "rnn", "other")
BYTE_PARTS = (
    "conv", "gemm", "attention", "elementwise", "norm", "reduction", "embedding", "layout", "sort", "random", "loss",
    "other",
)  # fmt: skip
TIME_PARTS = ("conv", "gemm", "batchnorm", "relu", "elementwise", "pooling", "memcpy", "arrangement", "other")
DTYPE_PARTS = ("fp64", "fp32", "bf16", "fp16", "fp8", "int64", "int", "bool")
FOOTPRINT_PARTS = ("weights", "gradients", "optimizer", "activations", "inputs", "workspace")
REUSE_PARTS = ("same_chain", "forward_to_backward", "step_to_step", "optimizer", "other")
STRIDE_PARTS = ("0", "1_element", "64B", "512B", "4KiB", "32KiB", "over_32KiB")

CAPACITIES: Mapping[str, int] = {"256KiB": 2**18, "4MiB": 2**22, "50MiB": 50 * 2**20, "256MiB": 2**28}

CATEGORY_PARTS: Mapping[str, tuple[str, str]] = {
    # category (full view): (part of FLOP shares, part of byte shares)
    "convolution": ("conv", "conv"),
    "GEMM": ("gemm", "gemm"),
    "attention": ("attention", "attention"),
    "recurrent": ("rnn", "other"),
    "embedding and scatter": ("other", "embedding"),
    "softmax": ("reduction", "reduction"),
    "reduction": ("reduction", "reduction"),
    "batch normalization": ("norm", "norm"),
    "other normalization": ("norm", "norm"),
    "element-wise": ("elementwise", "elementwise"),
    "ReLU activation": ("elementwise", "elementwise"),
    "other activation": ("elementwise", "elementwise"),
    "pooling": ("reduction", "reduction"),  # a reduction over windows
    "data arrangement": ("other", "layout"),
    "view and allocation": ("other", "layout"),  # those that move bytes after all: a reshape that copies
    "memory copy": ("other", "layout"),
    "interpolation and sampling": ("other", "other"),
    "loss": ("reduction", "loss"),  # its arithmetic reduces; the FLOP list has no loss
    "sort and selection": ("other", "sort"),
    "optimizer": ("elementwise", "elementwise"),
    "random": ("elementwise", "random"),
    "spectral": ("other", "other"),
    "communication": ("other", "other"),
    "synchronization": ("other", "other"),
    "framework": ("other", "other"),
    "other": ("other", "other"),
    kernels.UNKNOWN: ("other", "other"),
}

BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
"""Products of the category GEMM that stand with attention."""

PAPER_PARTS: Mapping[str, str] = {
    "convolution": "conv",
    "GEMM": "gemm",
    "batch normalization": "batchnorm",
    "ReLU activation": "relu",
    "element-wise": "elementwise",
    "pooling": "pooling",
    "memory copy": "memcpy",
    "data arrangement": "arrangement",
    kernels.NONE_OF_THE_EIGHT: "other",
    kernels.UNKNOWN: "other",
}
"""AIBench Training's eight categories; the rest of the time is `other`."""

FOOTPRINT_CLASSES: Mapping[str, str] = {
    "weights": "weight",
    "gradients": "gradient",
    "optimizer": "optimizer state",
    "activations": "activation",
    "inputs": "input",
    "workspace": "workspace",
}

REUSE_CLASSES: Mapping[str, str] = {
    "same_chain": "same chain",
    "forward_to_backward": "forward to backward",
    "step_to_step": "step to step",
    "optimizer": "optimizer",
    "other": "other",
}

DTYPES: Mapping[str, str] = {
    **dict.fromkeys(("float64", "double", "complex128"), "fp64"),
    **dict.fromkeys(("float32", "float", "complex64"), "fp32"),
    **dict.fromkeys(("float16", "half", "complex32"), "fp16"),
    "bfloat16": "bf16",
    **dict.fromkeys(("int64", "uint64", "long"), "int64"),
    "bool": "bool",
}
"""Types by part; whatever begins with float8 is fp8, and all else is int."""


def dtype_part(dtype: str) -> str:
    return "fp8" if dtype.startswith("float8") else DTYPES.get(dtype, "int")


def operator_parts(name: str) -> tuple[str, str]:
    """Parts of an operator: of the FLOP shares, of the byte shares."""
    if name in BATCHED:
        return "attention", "attention"
    return CATEGORY_PARTS[kernels.classify(name, host=True).full]
