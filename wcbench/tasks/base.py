"""What a task is: it builds, and the step is its own.

A task's step does a whole training iteration: forward, backward, every optimizer. Capture calls nothing but
`Built.step`, since GANs, distillation, LBFGS and people's own scripts each have an order of their own.

A task file defines a frozen `Settings` dataclass (the knobs, `batch_size` among them), three presets of it and
`build`. It must also build inside torch's FakeTensorMode, so that the paper's scale costs neither memory nor
arithmetic: control flow stays on Python numbers, batches come from torch operators. Where the real step depends on
data (NMS, a sampled architecture), `Config.fixed_shapes` asks for the stand-in whose shapes are known beforehand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from wcbench.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import numpy as np

PRESETS = ("paper", "small", "tiny")
PRECISIONS = ("fp32", "bf16")
MODES = ("train", "inference")

Batch = Any  # whatever the task's own step takes; capture only passes it on


@dataclass(frozen=True)
class Settings:
    """The knobs of a task; each task extends it. `--set key=value` and `--batch-size` replace fields.

    Attributes
    ----------
    batch_size : samples, or what the task counts as one, of a step.
    """

    batch_size: int

    def validate(self) -> None:
        """Raise UsageError where a value cannot work; tasks extend this."""
        if self.batch_size < 1:
            raise UsageError(
                f"batch size {self.batch_size} is refused: a training step needs at least one sample.",
                "Give a whole number from 1 up, e.g. --batch-size 8.",
            )


@dataclass(frozen=True)
class Config:
    """Everything that a build depends on; two equal configs build the same weights and the same batches.

    ``mode`` is "train" or "inference" (`Built.infer` in place of the step). ``fixed_shapes`` asks a task whose step
    depends on data for its stand-in of the same work, every shape of which is known beforehand; fake tensors need it.
    """

    preset: str
    settings: Any  # the task's own Settings
    variant: str | None = None
    seed: int = 0
    device: str = "cpu"
    precision: str = "fp32"
    mode: str = "train"
    fixed_shapes: bool = False

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """Mixed precision around the forward pass where the precision asks for it, else nothing."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[None] = torch.autocast(
            torch.device(self.device).type, torch.bfloat16
        )
        return context


def _always_train(index: int) -> str:
    return "train"


@dataclass(frozen=True)
class Built:
    """A task made ready to step.

    Attributes
    ----------
    step : one whole training iteration on a batch; returns the loss as a detached scalar tensor, not synchronized.
    batch : the batch of a step index, a function of seed and index alone, on the task's device.
    modules : the models by role, e.g. ``{"model": net}``; their parameters are what `complexity` counts.
    optimizers : the optimizers by role; an empty mapping where a task updates by hand.
    samples : samples that one step consumes (of the unit that the data set counts).
    kind : the kind of the step of an index ("train"; a GAN has several), cyclic within 64 steps; kinds are
        characterized apart.
    step_kinds : share of all steps of a whole training by kind, adding up to 1; every kind that ``kind`` names.
    infer : the forward pass alone on the batch of step 0: each model once, as the catalogue counts it. Returns a
        tensor or a tuple of them, and leaves gradient mode and ``training`` to the caller. None: not offered.
    kind_samples : samples of the kinds of steps that consume another number than ``samples``.
    """

    step: Callable[[Batch], Tensor]
    batch: Callable[[int], Batch]
    modules: Mapping[str, nn.Module]
    samples: int
    optimizers: Mapping[str, torch.optim.Optimizer] = field(default_factory=dict)
    kind: Callable[[int], str] = _always_train
    step_kinds: Mapping[str, float] = field(default_factory=lambda: {"train": 1.0})
    infer: Callable[[Batch], Any] | None = None
    kind_samples: Mapping[str, int] = field(default_factory=dict)


class Task(ABC):
    """A training task: presets of its settings, and how to build it.

    Attributes
    ----------
    presets : settings by preset name: ``paper`` (the reference's size), ``small`` (a laptop core steps it in under
        half a second, same structure), ``tiny`` (for tests).
    variants : other models under the same name, as ``{name: what differs}``; ``TASK@name`` asks for one.
    length : the setting that is the length of a sequence, which `--sequence-length` sets; None where there is none.
    unrolled : two lengths at which operators are counted on fake tensors where the preset's own is longer and the
        recurrence is unrolled step by step; work is linear in the length. Empty: always counted at the preset's own.
    """

    presets: ClassVar[Mapping[str, Settings]] = {}
    variants: ClassVar[Mapping[str, str]] = {}
    length: ClassVar[str | None] = None
    unrolled: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def build(self, config: Config) -> Built:
        """Build models, optimizers and batches for a config; all randomness comes from ``config.seed``."""

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        """Row ids (n,), int64, that the step of an index looks up, by path of the table's parameter; drawn for real.

        Paths are ``role.name`` as `Built.modules` has them ("model.users.weight"), ids in the order of the lookups.
        ``zipf`` draws them by Zipf's law of that exponent instead of the task's own law. Tasks without sparse tables
        have none.
        """
        return {}

    def configure(
        self,
        preset: str,
        *,
        overrides: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        variant: str | None = None,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "fp32",
        mode: str = "train",
        fixed_shapes: bool = False,
    ) -> Config:
        """A checked config; raises UsageError or UnknownNameError on anything that cannot work."""
        if not self.presets:
            raise UsageError(
                f"{type(self).__name__} defines no presets.",
                "Add presets = {'paper': Settings(batch_size=...), 'small': ..., 'tiny': ...} to the class.",
            )
        if preset not in self.presets:
            raise UnknownNameError("preset", preset, list(self.presets))
        if variant is not None and variant not in self.variants:
            raise UnknownNameError("variant", variant, list(self.variants))
        if precision not in PRECISIONS:
            raise UnknownNameError("precision", precision, PRECISIONS)
        if mode not in MODES:
            raise UnknownNameError("mode", mode, MODES)
        if not 0 <= seed < 2**63:
            raise UsageError(f"seed {seed} is refused.", "Give a whole number from 0 up, below 2**63.")
        changes = parse_overrides(self.presets[preset], overrides or {})
        if batch_size is not None:
            changes["batch_size"] = batch_size
        settings = dataclasses.replace(self.presets[preset], **changes)
        settings.validate()
        return Config(preset, settings, variant, seed, device, precision, mode, fixed_shapes)


def parse_overrides(settings: Settings, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Turn ``key=value`` texts into values of the types that the settings declare."""
    kinds = typing.get_type_hints(type(settings))
    parsed: dict[str, Any] = {}
    for key, text in overrides.items():
        if key not in kinds:
            raise UnknownNameError("setting", key, list(kinds))
        parsed[key] = _parse_value(key, text, kinds[key])
    return parsed


_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _parse_value(key: str, text: str, kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):  # "int | None"
        if text.lower() == "none":
            return None
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind in (int, float, str):
            return kind(text)
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            return tuple(item(part) for part in text.split(",") if part)
    except (ValueError, KeyError):
        name = getattr(kind, "__name__", str(kind))
        raise UsageError(f"setting {key}={text}: '{text}' is not a value of type {name}.") from None
    raise UsageError(f"setting {key} cannot be given on the command line.", "Set it from Python.")
