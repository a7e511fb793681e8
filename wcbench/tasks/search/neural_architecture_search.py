"""Neural architecture search: ENAS finds a recurrent cell for language models (Pham et al., arXiv:1802.03268).

AIBench Training DC-AI-C17 is not in AIBench's repository; ENAS on Penn Treebank is what its paper names (from memory).
The sizes and the loop are those of the authors' search (melodyguan/enas, scripts/ptb_search.sh): cells of 12 nodes
with one of 4 functions each, width 720, 10,000 words, 35 words back through time in 20 columns, batch normalization,
SGD at rate 0.25 with the gradients clipped to 10. A controller, an LSTM of 100, samples a new cell for every batch.
The 289 million shared weights hold a block per pair of nodes and function; a cell uses 12 of the 268 blocks, 20.7
million weights with the embedding.

Two loops take turns: an epoch of ``shared`` steps (929,589 words in 20 columns of 35: 1,327 batches) trains the
shared weights, then 1,000 ``controller`` steps of one sample train the controller by REINFORCE: the child runs forward
alone, on one validation batch from a zero state, and 80 / perplexity is the reward over a moving baseline of 0.99.
`step_kinds` is 1327 : 1000; the two are interleaved here, 4 : 3 in a cycle of 7.

What differs here, and why:

- The words are drawn by a Zipf-Mandelbrot law, ids in order of frequency. The state is carried from one shared step to
  the next, as there, but never reset; the texts of two steps do not join.
- A block is a parameter of its own, so that clipping, decay and SGD touch what the cell uses. TensorFlow fills the
  gradient of the other blocks with zeros and decays them too: it moves all 289 million weights in each shared step.
- Decay (1e-7, which TensorFlow's form doubles) is applied after the clipping, not before; the rate's decay of 0.95 an
  epoch from epoch 12 is left out. The output mask that the authors' code draws is used neither there nor here.
- Adam (1e-3, as theirs without momentum and with epsilon 1e-3) follows each of the controller's samples; the authors
  average ten. The 101,000 weights are 0.05 % of what a controller step reads.
- On fake tensors the controller's probabilities are unknown: a real copy at its initial weights samples the cell, out
  of the recording, and the fake controller goes over the decisions taken. All of the step's work is recorded; only
  the copy of the probabilities to the host is not. In mode inference the child runs once on a sampled cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from wcbench.errors import UsageError
from wcbench.tasks import data
from wcbench.tasks.base import Built, Config, Settings, Task
from wcbench.tasks.search.child import Child
from wcbench.tasks.search.controller import Controller, Sampler

SHARED, CONTROLLER = "shared", "controller"
CYCLE = (SHARED, CONTROLLER, SHARED, CONTROLLER, SHARED, CONTROLLER, SHARED)
EPOCH = {SHARED: (929_589 // 20 - 1) // 35, CONTROLLER: 1000}  # steps: 1,327 batches of Penn Treebank, 1,000 samples
WORST_LOSS = 10.0  # per word, beyond which the reward does not fall


@dataclass(frozen=True)
class SearchSettings(Settings):
    """Knobs of the architecture search.

    Attributes
    ----------
    bptt : words of a row.
    hidden : width of the cell and of the embedding.
    nodes : of a cell.
    vocab : words.
    keep_word, keep_input, keep_state : shares that dropout keeps, in shared steps.
    lr, clip, l2 : rate of SGD, largest norm of all gradients, weight of the sum of squares in the loss.
    controller_size, controller_lr : width of the controller, rate of its Adam.
    temperature, bound : logits of the controller are bound * tanh(logit / temperature).
    entropy : weight of the entropy in the reward.
    baseline : share of the reward's moving average that a step keeps.
    """

    batch_size: int = 20
    bptt: int = 35
    hidden: int = 720
    nodes: int = 12
    vocab: int = 10_000
    keep_word: float = 0.75
    keep_input: float = 0.25
    keep_state: float = 0.75
    lr: float = 0.25
    clip: float = 10.0
    l2: float = 1e-7
    controller_size: int = 100
    controller_lr: float = 1e-3
    temperature: float = 5.0
    bound: float = 2.5
    entropy: float = 1e-3
    baseline: float = 0.99

    def validate(self) -> None:
        super().validate()
        for name, least in (("bptt", 1), ("hidden", 1), ("nodes", 2), ("vocab", 2), ("controller_size", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} {getattr(self, name)} is refused: give a whole number from {least} up.")
        for name in ("keep_word", "keep_input", "keep_state"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} {getattr(self, name)} is refused: it is a share, above 0 and at most 1.")
        if not 0 <= self.baseline < 1:
            raise UsageError(f"baseline {self.baseline} is refused: it is a share below 1.", "The authors' is 0.99.")
        for name in ("clip", "temperature", "bound"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} {getattr(self, name)} is refused: give a number above 0.")


class Batch(NamedTuple):
    """A step's words, the words that follow them (both (batch, bptt)), and a uniform number per decision."""

    kind: str
    words: Tensor
    targets: Tensor
    luck: tuple[float, ...]


class NeuralArchitectureSearch(Task):
    """ENAS: shared weights and the controller that samples cells, in turn."""

    presets: ClassVar[Mapping[str, SearchSettings]] = {
        "paper": SearchSettings(),
        "small": SearchSettings(batch_size=10, bptt=8, hidden=200, vocab=2000),
        "tiny": SearchSettings(batch_size=4, bptt=6, hidden=32, nodes=4, vocab=200),
    }
    length: ClassVar[str | None] = "bptt"

    def build(self, config: Config) -> Built:
        settings: SearchSettings = config.settings
        torch.manual_seed(config.seed)
        with torch.device(config.device):
            controller = _controller(settings)
            keep = (settings.keep_word, settings.keep_input, settings.keep_state)
            child = Child(settings.vocab, settings.hidden, settings.nodes, keep)
        search = Search(config, child, controller, Sampler(controller, _twin(controller, config)))
        text = Text(settings, config.seed)

        def batch(index: int) -> Batch:
            drawn = text.batch(index)
            return drawn._replace(words=drawn.words.to(config.device), targets=drawn.targets.to(config.device))

        total = sum(EPOCH.values())
        return Built(
            step=search.step,
            batch=batch,
            modules={"child": child, "controller": controller},
            samples=settings.batch_size,
            optimizers={"child": search.sgd, "controller": search.adam},
            kind=_kind,
            step_kinds={kind: steps / total for kind, steps in EPOCH.items()},
            infer=search.infer,
        )

    def lookups(self, config: Config, index: int, zipf: float | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
        words = Text(config.settings, config.seed, zipf).batch(index).words
        return {"child.embedding.weight": words.flatten().numpy()}


def _kind(index: int) -> str:
    return CYCLE[index % len(CYCLE)]


def _controller(settings: SearchSettings) -> Controller:
    return Controller(settings.nodes, settings.controller_size, settings.temperature, settings.bound)


def _twin(controller: Controller, config: Config) -> Controller | None:
    """A real controller of the same seed beside one of fake tensors; the global random state stays as it was."""
    if not isinstance(controller.start, FakeTensor):
        return None
    with _disable_current_modes(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return _controller(config.settings)


class Search:
    """The two kinds of steps, and what they carry on: the child's state and the baseline."""

    def __init__(self, config: Config, child: Child, controller: Controller, sampler: Sampler) -> None:
        settings: SearchSettings = config.settings
        self.config, self.settings, self.child, self.sampler = config, settings, child, sampler
        self.sgd = torch.optim.SGD(child.parameters(), lr=settings.lr, weight_decay=2 * settings.l2, foreach=True)
        self.adam = torch.optim.Adam(
            controller.parameters(), lr=settings.controller_lr, betas=(0.0, 0.999), eps=1e-3, foreach=True
        )
        self.zero = torch.zeros(settings.batch_size, settings.hidden, device=config.device)
        self.hidden = self.zero
        self.baseline = torch.zeros((), device=config.device)

    def step(self, batch: Batch) -> Tensor:
        return self._shared(batch) if batch.kind == SHARED else self._controller(batch)

    def _shared(self, batch: Batch) -> Tensor:
        self.sgd.zero_grad(set_to_none=True)
        with torch.no_grad():
            architecture = self.sampler.draw(batch.luck).architecture
        with self.config.autocast():
            logits, hidden = self.child(batch.words, architecture, self.hidden)
            loss = F.cross_entropy(logits, batch.targets.flatten(), reduction="sum") / len(batch.words)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.child.parameters(), self.settings.clip, foreach=True)
        self.sgd.step()
        self.hidden = hidden.detach()
        return loss.detach() / self.settings.bptt  # per word, as the controller's kind sees it

    def _controller(self, batch: Batch) -> Tensor:
        """REINFORCE: raise the likelihood of a cell that does better than the baseline."""
        self.adam.zero_grad(set_to_none=True)
        sample = self.sampler.draw(batch.luck)
        self.child.eval()
        with torch.no_grad(), self.config.autocast():
            logits, _ = self.child(batch.words, sample.architecture, self.zero)
            loss = F.cross_entropy(logits, batch.targets.flatten())
        self.child.train()
        reward = 80 / loss.clamp(max=WORST_LOSS).exp() + self.settings.entropy * sample.entropy
        self.baseline.lerp_(reward, 1 - self.settings.baseline)
        (sample.loss * (reward - self.baseline)).backward()
        self.adam.step()
        return loss

    def infer(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            architecture = self.sampler.draw(batch.luck).architecture
        with self.config.autocast():
            logits, _ = self.child(batch.words, architecture, self.zero)
        return logits  # type: ignore[no-any-return]


class Text:
    """Drawn text; batches lie on the CPU."""

    def __init__(self, settings: SearchSettings, seed: int, zipf: float | None = None) -> None:
        self.settings, self.seed = settings, seed
        exponent, shift = (data.WORD_EXPONENT, data.WORD_SHIFT) if zipf is None else (zipf, 0.0)
        self.frequency = data.zipf_mandelbrot(settings.vocab, exponent, shift)

    def batch(self, index: int) -> Batch:
        rng = data.generator(self.seed, index)
        words = data.draw(self.frequency, (self.settings.batch_size, self.settings.bptt + 1), rng)
        luck = np.random.default_rng((self.seed, index)).random(2 * self.settings.nodes - 1)
        return Batch(_kind(index), words[:, :-1].contiguous(), words[:, 1:].contiguous(), tuple(luck.tolist()))
