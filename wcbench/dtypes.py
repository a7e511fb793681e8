"""Bytes of an element, by torch's name of its type without the prefix."""

from __future__ import annotations

# sub-byte types are stored padded to a byte by torch
ITEMSIZE = {
    **dict.fromkeys(("bool", "uint8", "int8", "quint8", "qint8", "quint4x2", "quint2x4", "bits8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("float4_e2m1fn_x2", "bits1x8", "bits2x4", "bits4x2"), 1),
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "bits16", "half", "short"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "qint32", "complex32", "float", "int"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64", "double", "long"), 8),
    "complex128": 16,
}
