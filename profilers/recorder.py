"""The operator stream: every operator of a training step with its tensors, on real or fake tensors.

One dispatch mode records, below autograd, what each operator got and gave: shapes, strides, offsets, types, and which
storage at which version. It never holds a tensor or a storage alive (that would change the stream: views into
copies, frees into leaks); a weak reference tells when a storage dies, so that a recycled address is a new storage.
The recorder is lean; formulas run after the pass.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other"

NO_STORAGE = -1
"""Identity of what has no dense storage of its own (sparse tensors)."""

# the host's own bookkeeping, not work of the algorithm; outside every count and outside coverage
_IGNORED_NAMESPACES = ("prim", "profiler")
_IGNORED_OPERATORS = frozenset({"aten::_local_scalar_dense"})

_LIFT = "aten::lift_fresh"

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


class TensorNote(NamedTuple):
    """A tensor as an operator saw it; offset and strides count elements.

    A sparse one (COO) is noted by its values, which have no storage of their own here: ``shape`` starts with the
    entries, and ``sparse`` is the number of dimensions that they index.
    """

    storage: int
    version: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    sparse: int = 0


@dataclass(slots=True)
class StorageNote:
    """A storage's life: indices of the operators at which it was born and died, None before or after the window."""

    nbytes: int
    born: int | None
    died: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """What the schema says of an operator, looked up once: arguments that it writes in place among them."""

    name: str
    overload: str
    ignored: bool
    composite: bool
    writes: tuple[int, ...]
    writes_kwargs: tuple[str, ...]


class CallNote(NamedTuple):
    """One call as recorded; tensors in ``args``, ``kwargs`` and ``out`` are TensorNotes."""

    info: OperatorInfo
    step: int
    phase: str
    module: str | None
    args: Any
    kwargs: Mapping[str, Any]
    out: Any


@dataclass
class Stream:
    """What was recorded: calls in order, storages by identity, kinds of the steps, and remarks."""

    calls: list[CallNote] = field(default_factory=list)
    storages: dict[int, StorageNote] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


class Recorder:
    """Records the operators of training steps; use `step` around each.

    Parameters
    ----------
    modules : the models by role; calls inside them are forward, and their paths name where an operator ran.
    optimizers : the optimizers by role; their states and gradients give storages their roles.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module] | None = None,
        optimizers: Mapping[str, torch.optim.Optimizer] | None = None,
    ) -> None:
        self.stream = Stream()
        self._modules = dict(modules or {})
        self._optimizers = dict(optimizers or {})
        self._ids = _Identities(self.stream)
        self._paths = {
            module: role if not path else f"{role}.{path}"
            for role, root in self._modules.items()
            for path, module in root.named_modules()
        }
        for model in self._modules.values():
            self._ids.mark(model.parameters(), "weight")
            self._ids.mark(model.buffers(), "weight")

    @contextlib.contextmanager
    def step(self, index: int, kind: str = "train", batch: Any = None) -> Iterator[None]:
        """Around one training step; ``batch`` holds what the step is given, whose storages are inputs."""
        self.stream.kinds[index] = kind
        self._mark_roles(batch)
        with contextlib.ExitStack() as stack:
            context = _Context(index)
            for handle in self._hooks(context):
                stack.callback(handle.remove)
            stack.enter_context(_RecordingMode(self.stream, self._ids, context))
            yield
        self._ids.mark(self._gradients(), "gradient")

    def _mark_roles(self, batch: Any) -> None:
        self._ids.mark((leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)), "input")
        self._ids.mark(self._gradients(), "gradient")
        for optimizer in self._optimizers.values():
            self._ids.mark((x for x in tree_leaves(dict(optimizer.state)) if isinstance(x, Tensor)), "optimizer state")

    def _gradients(self) -> Iterator[Tensor]:
        parameters = [p for model in self._modules.values() for p in model.parameters()]
        parameters += [p for o in self._optimizers.values() for group in o.param_groups for p in group["params"]]
        return (p.grad for p in parameters if p.grad is not None)

    def _hooks(self, context: _Context) -> Iterator[Any]:
        def optimizer_begins(*_: Any) -> None:
            context.optimizing += 1
            with _paused():
                self._ids.mark(self._gradients(), "gradient")

        def optimizer_ends(*_: Any) -> None:
            context.optimizing -= 1

        yield register_optimizer_step_pre_hook(optimizer_begins)
        yield register_optimizer_step_post_hook(optimizer_ends)
        for module, path in self._paths.items():
            yield module.register_forward_pre_hook(_enter(context, path))
            yield module.register_forward_hook(_leave(context), always_call=True)


def _enter(context: _Context, path: str) -> Callable[..., None]:
    def hook(*_: Any) -> None:
        context.path.append(path)

    return hook


def _leave(context: _Context) -> Callable[..., None]:
    def hook(*_: Any) -> None:
        context.path.pop()

    return hook


@contextlib.contextmanager
def _paused() -> Iterator[None]:
    """Outside every dispatch mode: our own look at tensors is no part of the stream."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


class _Context:
    """Where in the step the recording stands."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.optimizing = 0
        self.path: list[str] = []
        self._forward_of: dict[int, str] = {}

    def phase(self) -> str:
        """Backward inside an autograd graph task, forward where autograd records or a model runs, else optimizer
        inside its step, and other."""
        if torch._C._current_graph_task_id() != -1:
            return BACKWARD
        if torch.is_grad_enabled() or self.path:
            return FORWARD
        return OPTIMIZER if self.optimizing else OTHER

    def module(self, phase: str) -> str | None:
        """The innermost module that runs; in the backward pass the one whose forward call made the node.

        Autograd numbers a node before the operator below it runs, so the number of an operator's own node is the
        next number less one.
        """
        if phase == BACKWARD:
            node = torch._C._current_autograd_node()
            return None if node is None else self._forward_of.get(node._sequence_nr())
        path = self.path[-1] if self.path else None
        if phase == FORWARD and path is not None:
            # what autograd does not record makes no node: the one before it keeps its own module
            self._forward_of.setdefault(torch._C._autograd._get_sequence_nr() - 1, path)
        return path


class _Identities:
    """Storages by identity: a new number for each, never a strong reference."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._alive: dict[int, int] = {}
        self._references: dict[int, weakref.ref[Any]] = {}

    def of(self, tensor: Tensor, born: int | None) -> int:
        """The number of a tensor's storage; one not met before was born at operator ``born`` (None: earlier)."""
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return NO_STORAGE
        address = storage._cdata
        number = self._alive.get(address)
        return self._new(storage, address, born) if number is None else number

    def _new(self, storage: torch.UntypedStorage, address: int, born: int | None) -> int:
        number = len(self._stream.storages)
        self._stream.storages[number] = StorageNote(storage.nbytes(), born)
        self._alive[address] = number

        def died(_: Any) -> None:
            self._alive.pop(address, None)
            self._references.pop(number, None)
            self._stream.storages[number].died = len(self._stream.calls)

        self._references[number] = weakref.ref(storage, died)
        return number

    def mark(self, tensors: Iterable[Tensor], role: str) -> None:
        """Give the storages of tensors a role; the first one given stays."""
        for tensor in tensors:
            number = self.of(tensor, None)
            if number != NO_STORAGE and self._stream.storages[number].role is None:
                self._stream.storages[number].role = role


class _RecordingMode(TorchDispatchMode):
    def __init__(self, stream: Stream, ids: _Identities, context: _Context) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self._stream, self._ids, self._context = stream, ids, context
        self._infos: dict[Any, OperatorInfo] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _QUESTIONS:
            return NotImplemented
        kwargs = kwargs or {}
        info = self._infos.get(func)
        if info is None:
            info = self._infos[func] = describe(func)
        if info.composite:
            with self:  # under inference_mode composites arrive whole; their parts have formulas
                return func.decompose(*args, **kwargs)
        if info.ignored:
            return func(*args, **kwargs)
        phase = self._context.phase()
        if phase != BACKWARD and info.name in _PARTS:
            _refuse_fake_parts(args)
        module = self._context.module(phase)
        # a constant that Python makes (torch.tensor) is first seen here: it is born with this operator
        born = len(self._stream.calls) if info.name == _LIFT else None
        noted_args = [self._note(x, born) for x in args]
        noted_kwargs = {key: self._note(x, None) for key, x in kwargs.items()} if kwargs else {}
        out = func(*args, **kwargs)
        count_entries(info.name, args, kwargs, out)
        index = len(self._stream.calls)
        noted_out = self._note(out, index)
        self._stream.calls.append(
            CallNote(info, self._context.step, phase, module, noted_args, noted_kwargs, noted_out)
        )
        return out

    def _note(self, value: Any, born: int | None) -> Any:
        """The value with tensors replaced by notes; numbers, types and texts stay as they are."""
        if isinstance(value, Tensor):
            if value.layout is torch.sparse_coo:
                return _sparse_note(value)
            number = self._ids.of(value, born)
            if number == NO_STORAGE:
                return TensorNote(number, 0, 0, tuple(value.shape), (), value.dtype)
            version = 0 if value.is_inference() else value._version
            offset: Any = value.storage_offset()  # symbolic shapes are not recorded, so it is an int
            return TensorNote(number, version, offset, tuple(value.shape), value.stride(), value.dtype)
        if type(value) in (list, tuple):
            return [self._note(item, born) for item in value]
        return value


_PARTS = frozenset(f"aten::{name}" for name in ("_values", "_indices", "values", "indices", "coalesce", "_coalesce"))
_JOINED = frozenset(f"aten::{name}" for name in ("add", "add_", "sub", "sub_", "cat"))


def _refuse_fake_parts(args: Any) -> None:
    """Raise where a task goes on with the entries of a fake sparse tensor, of which torch makes none.

    What an optimizer does to them would count as nothing. Autograd also looks at them, and does not work on them.
    """
    if any(isinstance(x, FakeTensor) and x.layout is torch.sparse_coo for x in args):
        raise NotImplementedError("the entries of a sparse gradient depend on data")


_ENTRIES = "_wcbench_entries"
_LOOKUPS = ("aten::_embedding_bag_backward", "aten::_embedding_bag_sparse_backward", "aten::embedding_sparse_backward")
_FROM_VALUES = "aten::_sparse_coo_tensor_with_dims_and_tensors"


def count_entries(name: str, args: Any, kwargs: Any, out: Any) -> None:
    """Mark sparse results with how many entries they have: fake ones say 0, whatever they were made of.

    A gradient of look-ups has one entry for each; what is made of a sparse tensor has as many as it, and two that are
    added have those of both.
    """
    for tensor in tree_leaves(out):
        if not isinstance(tensor, Tensor) or tensor.layout is not torch.sparse_coo:
            continue
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not isinstance(tensor, FakeTensor):
            entries = tensor._nnz()
        elif name in _LOOKUPS:
            entries = given[1].numel()
        elif name == _FROM_VALUES:
            entries = given[-1].shape[0]
        else:
            counts = [getattr(leaf, _ENTRIES, 0) for leaf in given if leaf.layout is torch.sparse_coo]
            entries = sum(counts) if name in _JOINED else max(counts, default=0)
        setattr(tensor, _ENTRIES, entries)


def _sparse_note(tensor: Tensor) -> TensorNote:
    indexed = tensor.sparse_dim()
    entries = getattr(tensor, _ENTRIES, None)
    entries = tensor._nnz() if entries is None else entries
    shape = (entries, *tensor.shape[indexed:])
    strides = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    return TensorNote(NO_STORAGE, 0, 0, shape, strides, tensor.dtype, indexed)


def describe(func: Any) -> OperatorInfo:
    """What is the same for every call of an operator."""
    schema = func._schema
    written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    name = str(schema.name)
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return OperatorInfo(
        name=name,
        overload=str(schema.overload_name),
        ignored=name.split("::", maxsplit=1)[0] in _IGNORED_NAMESPACES or name in _IGNORED_OPERATORS,
        composite=torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key),
        writes=tuple(i for i in written if not schema.arguments[i].kwarg_only),
        writes_kwargs=tuple(schema.arguments[i].name for i in written if schema.arguments[i].kwarg_only),
    )


def same_steps(stream: Stream, first: int, second: int) -> str | None:
    """None where two recorded steps are the same operators on the same shapes, else where they part."""
    left, right = (_signatures(call for call in stream.calls if call.step == step) for step in (first, second))
    for order, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return f"operator {order}: {a[0]} in step {first}, {b[0]} in step {second}"
    if len(left) != len(right):
        return f"{len(left)} operators in step {first}, {len(right)} in step {second}"
    return None


def _signatures(calls: Iterable[CallNote]) -> Sequence[tuple[Any, ...]]:
    return [(f"{c.info.name}.{c.info.overload}", c.phase, c.module, _shapes(c.args), _shapes(c.out)) for c in calls]


def _shapes(value: Any) -> Any:
    if isinstance(value, TensorNote):
        return (value.shape, value.stride, value.dtype)
    if isinstance(value, list):
        return tuple(_shapes(item) for item in value)
    return None
