"""Parameters, and matrix-class FLOPs of one training step, counted on fake tensors by torch's own formulas.

Matrix-class are convolutions, matrix products, attention and recurrences: the FLOPs that papers publish. What they
leave out (elementwise work, normalization, reductions) is outside this count, and how many of the step's operator
calls a formula covers stands beside it. 1 multiply-accumulate = 2 FLOP.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from wcbench import kernels
from wcbench.profilers.base import Collector, Columns
from wcbench.tasks.base import Built

_KINDS_AHEAD = 64  # steps looked ahead for kinds that differ from the one counted

MATRIX_CATEGORIES = frozenset({"convolution", "GEMM", "attention", "recurrent"})

# the host's own bookkeeping, not work of the algorithm; outside coverage too (DESIGN, section 4)
_IGNORED_NAMESPACES = ("prim::", "profiler::")
_IGNORED_OPERATORS = frozenset({"aten::_local_scalar_dense"})

# questions about a tensor's form, which tensor subclasses answer themselves and which touch no data
_QUESTIONS = frozenset(
    getattr(getattr(torch.ops.aten, name), overload)
    for name, overload in (
        ("sym_is_contiguous", "default"),
        ("is_contiguous", "default"),
        ("is_contiguous", "memory_format"),
        ("is_strides_like_format", "default"),
        ("is_non_overlapping_and_dense", "default"),
        ("size", "default"),
        ("sym_size", "default"),
        ("stride", "default"),
        ("sym_stride", "default"),
        ("storage_offset", "default"),
        ("sym_storage_offset", "default"),
        ("numel", "default"),
        ("sym_numel", "default"),
        ("dim", "default"),
    )
) | {torch.ops.prim.layout.default, torch.ops.prim.device.default}


class Complexity(Collector):
    """Counts one step, after the one that creates optimizer state."""

    name = "complexity"
    purpose = "parameters and matrix-class FLOPs at the paper's scale, on fake tensors"
    tensors = "fake"
    timed = False
    warmup = 1
    steps = 1

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._counts: dict[tuple[str, str, str], _Count] = {}
        self._parameters: list[dict[str, Any]] = []
        self._modules: list[nn.Module] = []

    def built(self, built: Built) -> None:
        self._modules = list(built.modules.values())
        # torch hides a whole LSTM in one oneDNN call, which no formula knows; without it the matmuls show
        setattr(torch.backends.mkldnn, "enabled", False)  # noqa: B010  (torch types it as a property object)

    @contextlib.contextmanager
    def measuring(self, built: Built) -> Iterator[None]:
        # after the warm-up step, in which lazy modules get their parameters
        self._parameters = list(parameter_rows(built))
        kinds = sorted({built.kind(index) for index in range(_KINDS_AHEAD)})
        yield
        if len(kinds) > 1:
            counted = ", ".join(sorted({kind for kind, _, _ in self._counts}))
            self.note(f"The task has steps of the kinds {', '.join(kinds)}; counted is a step of the kind {counted}.")

    @contextlib.contextmanager
    def step(self, index: int, kind: str) -> Iterator[None]:
        with StepCounter(self._modules) as counter:
            yield
        if not any(seen == kind for seen, _, _ in self._counts):
            self._counts.update({(kind, name, phase): count for (name, phase), count in counter.counts.items()})

    def tables(self) -> Mapping[str, Columns]:
        rows = sorted(self._counts.items())
        missing = sorted({key[1] for key, count in rows if count.matrix and count.flops is None})
        if missing:
            self.note(f"FLOPs of matrix-class operators without a formula are not counted: {', '.join(missing)}.")
        parameters = self._parameters
        return {
            "operator_counts": {
                "kind": [kind for (kind, _, _), _ in rows],
                "name": [name for (_, name, _), _ in rows],
                "phase": [phase for (_, _, phase), _ in rows],
                "calls": [count.calls for _, count in rows],
                "matrix_class": [count.matrix for _, count in rows],
                "flops_matrix": [count.flops for _, count in rows],
            },
            "parameters": {key: [row[key] for row in parameters] for key in parameters[0]} if parameters else {},
        }


@dataclass
class _Count:
    """Calls of one operator in one phase; ``flops`` is None while no formula knows it."""

    matrix: bool
    calls: int = 0
    flops: int | None = None


@dataclass
class StepCounter:
    """Context manager that counts every operator of what runs inside, by name and phase.

    ``modules`` are the models; what runs inside their calls is forward even under no_grad.
    ``counts`` maps (operator with overload, phase) to calls and FLOPs.
    """

    modules: Sequence[nn.Module] = ()
    counts: dict[tuple[str, str], _Count] = field(default_factory=dict)

    def __enter__(self) -> StepCounter:
        self._inside = {"forward": 0, "optimizer": 0}
        handles = [
            register_optimizer_step_pre_hook(self._move("optimizer", 1)),
            register_optimizer_step_post_hook(self._move("optimizer", -1)),
        ]
        for module in self.modules:
            handles.append(module.register_forward_pre_hook(self._move("forward", 1)))
            handles.append(module.register_forward_hook(self._move("forward", -1), always_call=True))
        self._open = contextlib.ExitStack()
        for handle in handles:
            self._open.callback(handle.remove)
        self._open.enter_context(_CountingMode(self))
        return self

    def __exit__(self, *exc: Any) -> None:
        self._open.close()

    def _move(self, phase: str, by: int) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self._inside[phase] += by

        return hook

    def phase(self) -> str:
        """Backward inside an autograd graph task, forward where autograd records or a model runs, else optimizer
        inside its step, and other."""
        if torch._C._current_graph_task_id() != -1:
            return "backward"
        if torch.is_grad_enabled() or self._inside["forward"] > 0:
            return "forward"
        return "optimizer" if self._inside["optimizer"] > 0 else "other"

    def add(self, name: str, matrix: bool, flops: int | None) -> None:
        count = self.counts.setdefault((name, self.phase()), _Count(matrix))
        count.calls += 1
        if flops is not None:
            count.flops = (count.flops or 0) + flops


class _CountingMode(TorchDispatchMode):
    def __init__(self, counter: StepCounter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _QUESTIONS:
            return NotImplemented
        packet = func._overloadpacket
        formula = FORMULAS.get(packet)
        if formula is None:
            with self:  # under inference_mode composites arrive whole; their parts have formulas
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        name = operator_name(func)
        if not ignored(name):
            flops = None if formula is None else int(formula(*args, **kwargs, out_val=out))
            self.counter.add(name, matrix_class(name), flops)
        return out


def operator_name(func: Any) -> str:
    """``aten::addmm``, or with its overload ``aten::add.Tensor``."""
    name = str(func._schema.name)
    overload = func._schema.overload_name
    return f"{name}.{overload}" if overload else name


def ignored(name: str) -> bool:
    """Whether an operator is the host's bookkeeping and stands outside every count."""
    return name.startswith(_IGNORED_NAMESPACES) or name.split(".", maxsplit=1)[0] in _IGNORED_OPERATORS


def matrix_class(name: str) -> bool:
    """Whether an operator belongs to the classes whose FLOPs are counted here."""
    return kernels.classify(name.split(".", maxsplit=1)[0], host=True).full in MATRIX_CATEGORIES


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, out_val: Any = None, **__: Any) -> int:
    """Two products: query x key, scores x value. Shapes (batch, heads, length, width), heads those of the query."""
    batch, heads, length, width = query.shape
    return int(2 * batch * heads * length * key.shape[-2] * (width + value.shape[-1]))


def _attention_backward_flops(_grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Five products: the scores once more, then gradients of value, scores, query and key."""
    batch, heads, length, width = query.shape
    return int(2 * batch * heads * length * key.shape[-2] * (3 * width + 2 * value.shape[-1]))


def _convolution_backward_flops(grad: Any, source: Any, weight: Any, *rest: Any, out_val: Any, **__: Any) -> int:
    """Each gradient that is asked for, of input or weight, repeats the forward's multiplications: every product
    x * w that enters an output gives one product for x's gradient and one for w's, whatever stride and groups."""
    _bias_sizes, _stride, _padding, _dilation, transposed, *_ = rest
    pixels = source.shape[2:] if transposed else grad.shape[2:]
    forward = 2 * source.shape[0] * prod(pixels) * prod(weight.shape)
    return int(forward * sum(gradient is not None for gradient in out_val[:2]))


def _formulas() -> dict[Any, Any]:
    """torch's formulas, the two it lacks (attention as it runs on a CPU, pytorch issue 195460), and the one that is
    wrong: weight gradients of grouped convolutions come out `groups` times too large (pytorch issue 183405)."""
    aten = torch.ops.aten
    return {
        **flop_registry,
        aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
        aten.convolution_backward: _convolution_backward_flops,
    }


FORMULAS = _formulas()


def parameter_rows(built: Built) -> Iterator[dict[str, Any]]:
    """A row of table `parameters` for every name; a tensor met again says with which name it is shared.

    Parameters that stand in no module but that an optimizer updates follow, under the optimizer's role.
    """
    first: dict[int, str] = {}
    for model, name, parameter in _named_parameters(built):
        yield {
            "model": model,
            "name": name,
            "shape": list(parameter.shape),
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "numel": parameter.numel(),
            "nbytes": parameter.numel() * parameter.element_size(),
            "trainable": parameter.requires_grad,
            "shared_with": first.get(id(parameter)),
        }
        first.setdefault(id(parameter), f"{model}.{name}")


def _named_parameters(built: Built) -> Iterator[tuple[str, str, torch.Tensor]]:
    seen: set[int] = set()
    for model, module in built.modules.items():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            seen.add(id(parameter))
            yield model, name, parameter
    for role, optimizer in built.optimizers.items():
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield role, f"group{g}.{i}", parameter
