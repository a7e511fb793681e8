"""What a task is: it builds, and the step is its own.

A task's step does a whole training iteration: forward, backward, every optimizer. Capture calls nothing but
`Built.step`, since GANs, distillation, LBFGS and people's own scripts each have an order of their own.

A task file defines a frozen `Settings` dataclass (the knobs, `batch_size` among them), three presets of it and
`build`. It must also build inside torch's FakeTensorMode, so that the paper's scale costs neither memory nor
arithmetic: control flow stays on Python numbers, batches come from torch operators.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wcbench.errors import UnknownNameError, UsageError

PRESETS = ("paper", "small", "tiny")
PRECISIONS = ("fp32", "bf16")

Batch = Any  # whatever the task's own step takes; capture only passes it on


@dataclass(frozen=True)
class Settings:
    """The knobs of a task; each task extends it. `--set key=value` and `--batch-size` replace fields."""

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
    """Everything that a build depends on; two equal configs build the same weights and the same batches."""

    preset: str
    settings: Any  # the task's own Settings
    variant: str | None = None
    seed: int = 0
    device: str = "cpu"
    precision: str = "fp32"

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
    samples : samples that one step consumes (of the unit that the task's data set counts).
    kind : the kind of the step of an index ("train"; a GAN has several); kinds are characterized apart.
    """

    step: Callable[[Batch], Tensor]
    batch: Callable[[int], Batch]
    modules: Mapping[str, nn.Module]
    samples: int
    optimizers: Mapping[str, torch.optim.Optimizer] = field(default_factory=dict)
    kind: Callable[[int], str] = _always_train


class Task(ABC):
    """A training task: presets of its settings, and how to build it.

    Attributes
    ----------
    presets : settings by preset name: ``paper`` (the reference's size), ``small`` (a laptop core steps it in under
        half a second, same structure), ``tiny`` (for tests).
    variants : other models under the same name, as ``{name: what differs}``; ``TASK@name`` asks for one.
    """

    presets: ClassVar[Mapping[str, Settings]] = {}
    variants: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def build(self, config: Config) -> Built:
        """Build models, optimizers and batches for a config; all randomness comes from ``config.seed``."""

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
        if not 0 <= seed < 2**63:
            raise UsageError(f"seed {seed} is refused.", "Give a whole number from 0 up, below 2**63.")
        changes = parse_overrides(self.presets[preset], overrides or {})
        if batch_size is not None:
            changes["batch_size"] = batch_size
        settings = dataclasses.replace(self.presets[preset], **changes)
        settings.validate()
        return Config(preset, settings, variant, seed, device, precision)


def parse_overrides(settings: Settings, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Turn ``key=value`` texts into values of the types that the settings declare."""
    types = typing.get_type_hints(type(settings))
    parsed: dict[str, Any] = {}
    for key, text in overrides.items():
        if key not in types:
            raise UnknownNameError("setting", key, list(types))
        parsed[key] = _parse_value(key, text, types[key])
    return parsed


_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _parse_value(key: str, text: str, kind: Any) -> Any:
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
