"""A stand-in for the recorder: every operator below autograd becomes a `Call`, on real or fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from wcbench.profilers.formulas import Call, T, Work, work

IGNORED = ("prim::", "profiler::", "aten::_local_scalar_dense")


@dataclass
class Recorded:
    """The calls of one recording, with sums over their work."""

    calls: list[Call] = field(default_factory=list)
    backward: list[bool] = field(default_factory=list)  # whether autograd made the call
    held: list[Any] = field(default_factory=list)  # so that no address is recycled

    def works(self, **options: str) -> list[Work]:
        return [work(call, **options) for call in self.calls]

    def matrix(self, **options: str) -> int:
        return sum(each.flops_matrix for each in self.works(**options))

    def flops(self, **options: str) -> int:
        return sum(each.flops_all for each in self.works(**options))

    def notes(self) -> list[str | None]:
        """Why calls are not covered."""
        return sorted({each.note for each in self.works() if not each.covered}, key=str)

    def named(self, name: str) -> list[Work]:
        return [work(call) for call in self.calls if call.name == name]


def describe(value: Any) -> Any:
    """Tensors replaced by their description, lists and tuples kept as they are."""
    import torch

    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        try:
            storage = value.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):  # sparse: the tensors inside are recorded by themselves
            return T(id(value), 0, 0, tuple(value.shape), (0,) * value.dim(), dtype)
        return T(storage, 0, value.storage_offset(), tuple(value.shape), tuple(value.stride()), dtype)
    if isinstance(value, (list, tuple)):
        return type(value)([describe(each) for each in value])
    return value


def call_of(func: Any, args: Any, kwargs: Any, out: Any) -> Call:
    schema = func._schema
    written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    return Call(
        name=schema.name,
        overload=schema.overload_name,
        args=tuple(describe(each) for each in args),
        kwargs={key: describe(each) for key, each in kwargs.items()},
        out=describe(out),
        writes=tuple(i for i in written if not schema.arguments[i].kwarg_only),
        writes_kwargs=tuple(schema.arguments[i].name for i in written if schema.arguments[i].kwarg_only),
    )


@pytest.fixture
def record() -> Callable[..., Recorded]:
    """Run a function and return what it recorded; ``decompose`` takes composites apart, as under inference_mode."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __init__(self, into: Recorded, decompose: bool) -> None:
            super().__init__()
            self.into, self.decompose = into, decompose

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if self.decompose:
                with self:
                    out = func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
            if hasattr(func, "_schema") and not func._schema.name.startswith(IGNORED):
                self.into.calls.append(call_of(func, args, kwargs, out))
                self.into.backward.append(torch._C._current_graph_task_id() != -1)
                self.into.held.append((args, kwargs, out))
            return out

    def run(function: Callable[[], Any], *, decompose: bool = False) -> Recorded:
        recorded = Recorded()
        with Mode(recorded, decompose):
            function()
        return recorded

    return run
