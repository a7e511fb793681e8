"""ENAS: sizes by hand, cells against a plain recomputation, what each kind of step touches, sampling real and fake."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.search.child import Child
from wcbench.tasks.search.controller import FUNCTIONS, Architecture, Controller, Sampler
from wcbench.tasks.search.neural_architecture_search import NeuralArchitectureSearch, Search

TASK = NeuralArchitectureSearch()
CELL = Architecture(previous=(0, 0, 2), functions=(0, 1, 2, 3))  # 1 and 2 read 0, 3 reads 2: leaves 1 and 3
LUCK = tuple(np.random.default_rng(5).random(23).tolist())


def built(preset: str = "tiny", **options: Any) -> Built:
    return TASK.build(TASK.configure(preset, **options))


def search_of(task: Built) -> Search:
    search = getattr(task.step, "__self__")  # noqa: B009  (a bound method)
    assert isinstance(search, Search)
    return search


def test_sizes_by_hand() -> None:
    """Node 0 reads 1,440 values, node k one of k earlier nodes of 720; each block writes 1,440, for each function."""
    blocks = 4 * 1440 * 1440 + sum(4 * k * 720 * 1440 for k in range(1, 12))
    norms = 12 * 2 * 1440 + 2 * 720
    embedding = 10_000 * 720
    controller = 200 * 400 + 2 * 100 * 100 + 100 * 4 + 4 * 100 + 100 + 100
    assert blocks + norms + embedding == 289_245_600
    assert controller == 101_000
    assert blocks + norms + embedding + controller == 289_346_600
    with FakeTensorMode():
        modules = built("paper").modules
    sizes = {role: sum(p.numel() for p in module.parameters()) for role, module in modules.items()}
    assert sizes == {"child": 289_245_600, "controller": 101_000}


def test_flops_by_hand() -> None:
    """One cell reads 12 blocks and the output layer for each word; two words stand for the paper's 35."""
    touched = 1440 * 1440 + 11 * 720 * 1440 + 10_000 * 720
    assert touched == 20_678_400
    assert 35 * 2 * touched == 1_447_488_000
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        task = built("paper", overrides={"bptt": "2"})
        with FlopCounterMode(display=False) as counter:
            task.infer(task.batch(0))  # type: ignore[misc]
    assert counter.get_total_flops() / task.samples == pytest.approx(2 * 2 * touched, rel=0.005)


def test_shares_of_the_two_kinds() -> None:
    """929,589 words in 20 columns are 46,479 each; the last word has no successor, and 35 fit 1,327 times."""
    task = built()
    assert (929_589 // 20, 46_478 // 35) == (46_479, 1327)
    assert task.step_kinds == {"shared": 1327 / 2327, "controller": 1000 / 2327}
    kinds = [task.kind(index) for index in range(63)]
    assert kinds[:7] == kinds[7:14]
    assert kinds.count("shared") / 63 == pytest.approx(1327 / 2327, abs=0.002)


def plain_cell(child: Child, inputs: Tensor, hidden: Tensor, cell: Architecture) -> Tensor:
    """The cell for one row, written out; the running moments are 0 and 1, so that norms divide by sqrt(1 + 1)."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "tanh": torch.tanh,
        "relu": torch.relu,
        "identity": lambda x: x,
        "sigmoid": torch.sigmoid,
    }
    nodes: list[Tensor] = []
    for node, number in enumerate(cell.functions):
        name = FUNCTIONS[number]
        below = hidden if node == 0 else nodes[cell.previous[node - 1]]
        if node == 0:
            both = torch.cat((inputs, hidden)) @ child.first[name]
        else:
            both = below @ child.later[f"{node}_{cell.previous[node - 1]}_{name}"]
        both = both / math.sqrt(2)
        new, gate = both[: len(hidden)], torch.sigmoid(both[len(hidden) :])
        nodes.append((1 - gate) * below + gate * functions[name](new))
    return (nodes[1] + nodes[3]) / 2 / math.sqrt(2)


def test_a_cell_written_out() -> None:
    torch.manual_seed(0)
    child = Child(50, 8, 4, (1.0, 1.0, 1.0)).eval()
    words = torch.tensor([[3, 7]])
    with torch.no_grad():
        logits, state = child(words, CELL, torch.full((1, 8), 0.3))
        first = plain_cell(child, child.embedding.weight[3], torch.full((8,), 0.3), CELL)
        second = plain_cell(child, child.embedding.weight[7], first, CELL)
    assert CELL.leaves() == [1, 3]
    assert torch.allclose(state[0], second, atol=1e-6)
    assert torch.allclose(logits, torch.stack((first, second)) @ child.embedding.weight.t(), atol=1e-6)


def test_only_the_blocks_of_the_cell_change() -> None:
    task = built()
    child = task.modules["child"]
    search, batch = search_of(task), task.batch(0)
    with torch.no_grad():
        cell = search.sampler.draw(batch.luck).architecture
    before = {name: p.detach().clone() for name, p in task.modules["child"].named_parameters()}
    others = [p.detach().clone() for p in task.modules["controller"].parameters()]
    assert batch.kind == "shared"
    task.step(batch)
    names = [FUNCTIONS[number] for number in cell.functions]
    used = {f"first.{names[0]}"} | {f"later.{n}_{p}_{names[n]}" for n, p in enumerate(cell.previous, 1)}
    changed = {name for name, p in child.named_parameters() if not torch.equal(p, before[name])}
    assert {name for name in changed if name.startswith(("first", "later"))} == used
    assert len(used) == 4
    assert "embedding.weight" in changed
    assert {name for name, p in child.named_parameters() if p.grad is not None} >= changed
    assert all(p.grad is None for name, p in child.named_parameters() if "_" in name and name not in used)
    assert all(torch.equal(p, q) for p, q in zip(task.modules["controller"].parameters(), others, strict=True))


def test_gradients_are_clipped_together_and_the_state_is_carried_on() -> None:
    """SGD without decay moves all weights by rate x norm together, where the norm is above the bound."""
    task = built(overrides={"clip": "0.01", "l2": "0"})
    child, search = task.modules["child"], search_of(task)
    before = [p.detach().clone() for p in child.parameters()]
    task.step(task.batch(0))
    moved = sum(float((p.detach() - q).square().sum()) for p, q in zip(child.parameters(), before, strict=True))
    assert math.sqrt(moved) == pytest.approx(0.25 * 0.01, rel=1e-3)
    state = search.hidden.clone()
    assert state.abs().sum() > 0
    task.step(task.batch(1))  # a controller step starts from zero and leaves the state alone
    assert torch.equal(search.hidden, state)


def test_a_controller_step_is_reinforce() -> None:
    """Adam without momentum moves a weight by rate x g / (|g| + 1e-3) in its first step, g = d loss x advantage."""
    task = built()
    task.step(task.batch(0))  # leaves a state behind, from which the controller's step does not start
    search, controller, batch = search_of(task), task.modules["controller"], task.batch(1)
    assert batch.kind == "controller"
    others = [p.detach().clone() for p in task.modules["child"].parameters()]
    moments = [b.clone() for b in task.modules["child"].buffers()]
    before = [p.detach().clone() for p in controller.parameters()]
    sample = search.sampler.draw(batch.luck)
    gradients = torch.autograd.grad(sample.loss, list(controller.parameters()))
    child = task.modules["child"].eval()
    with torch.no_grad():
        logits, _ = child(batch.words, sample.architecture, torch.zeros(4, 32))
    loss = float(task.step(batch))
    assert loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, batch.targets.flatten())))
    reward = 80 / math.exp(loss) + 1e-3 * float(sample.entropy)
    assert float(search.baseline) == pytest.approx(0.01 * reward, rel=1e-5)
    for p, q, gradient in zip(controller.parameters(), before, gradients, strict=True):
        g = gradient * 0.99 * reward
        assert torch.allclose(p - q, -1e-3 * g / (g.abs() + 1e-3), atol=1e-7)
    assert all(torch.equal(p, q) for p, q in zip(task.modules["child"].parameters(), others, strict=True))
    assert all(torch.equal(p, q) for p, q in zip(task.modules["child"].buffers(), moments, strict=True))
    assert task.modules["child"].training


def test_near_nodes_are_favoured() -> None:
    """Weights of zero leave the distance alone: node 3 sees 3, 2 and 1, at -9/12, -4/12 and -1/12 of a logit."""
    controller = Controller(4, 6, 5.0, 2.5)
    for parameter in controller.parameters():
        torch.nn.init.zeros_(parameter)
    seen: list[list[float]] = []

    def choose(probabilities: Tensor) -> int:
        seen.append(probabilities.tolist())
        return 0

    sample = controller(choose)
    assert sample.architecture == Architecture((0, 0, 0), (0, 0, 0, 0))
    assert [len(p) for p in seen] == [4, 1, 4, 2, 4, 3, 4]
    weights = [math.exp(-9 / 12), math.exp(-4 / 12), math.exp(-1 / 12)]
    assert seen[5] == pytest.approx([w / sum(weights) for w in weights])
    assert seen[6] == pytest.approx([0.25] * 4)
    chosen = [p[0] for p in seen]
    assert float(sample.loss.detach()) == pytest.approx(-sum(map(math.log, chosen)), rel=1e-5)
    assert float(sample.entropy) == pytest.approx(-sum(p * math.log(p) for p in chosen), rel=1e-5)


def test_a_controller_written_out() -> None:
    """Against torch's own LSTM cell, whose gates come as input, forget, new, output."""
    torch.manual_seed(0)
    controller = Controller(3, 5, 5.0, 2.5)
    with torch.no_grad():
        for parameter in controller.parameters():
            parameter.mul_(20)  # far from even
        cell = torch.nn.LSTMCell(5, 5, bias=False)
        take, keep, show, new = controller.lstm.chunk(4, 1)
        weights = torch.cat((take, keep, new, show), 1).t()  # (20, 10)
        cell.weight_ih.copy_(weights[:, :5])
        cell.weight_hh.copy_(weights[:, 5:])
        decisions = [2, 0, 1, 1, 3]  # function 2; node 1 on 0, function 1; node 2 on 1, function 3
        given = iter(decisions)
        sample = controller(lambda _: next(given))
        state = cell(controller.start)
        states = [state[0]]
        state = cell(controller.start, state)
        total = -torch.log_softmax(2.5 * torch.tanh(state[0][0] @ controller.to_function / 5), 0)[2]
        for node, (previous, function) in ((1, (0, 1)), (2, (1, 3))):
            state = cell(controller.functions[[2, 1][node - 1]][None], state)
            query = state[0] @ controller.to_query
            scores = [torch.tanh(query + s @ controller.to_key) @ controller.to_score for s in states]
            logits = torch.stack([2.5 * torch.tanh(s[0, 0] / 5) - (node - i) ** 2 / 12 for i, s in enumerate(scores)])
            total = total - torch.log_softmax(logits, 0)[previous]
            states.append(state[0])
            state = cell(states[previous] / (0.1 + node - previous), state)
            total = total - torch.log_softmax(2.5 * torch.tanh(state[0][0] @ controller.to_function / 5), 0)[function]
    assert sample.architecture == Architecture((0, 1), (2, 1, 3))
    assert sample.architecture.decisions() == decisions
    assert float(sample.loss) == pytest.approx(float(total), rel=1e-5)


def test_luck_decides_by_the_probabilities() -> None:
    controller = Controller(4, 6, 5.0, 2.5)
    for parameter in controller.parameters():
        torch.nn.init.zeros_(parameter)
    low, middle, high = (Sampler(controller, None).draw([luck] * 7).architecture for luck in (0.0, 0.51, 0.999))
    assert low == Architecture((0, 0, 0), (0, 0, 0, 0))
    assert middle.functions == (2, 2, 2, 2)  # the third of four begins at a half
    assert high == Architecture((0, 1, 2), (3, 3, 3, 3))


def test_fake_weights_sample_what_real_ones_do() -> None:
    real = search_of(built("small", seed=4)).sampler
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = search_of(built("small", seed=4)).sampler
        drawn = fake.draw(LUCK)
    assert drawn.architecture == real.draw(LUCK).architecture
    assert hasattr(drawn.loss, "fake_mode")
    assert real.twin is None
    assert fake.twin is not None
    assert all(torch.equal(p, q) for p, q in zip(fake.twin.parameters(), real.controller.parameters(), strict=True))


def test_a_dropped_word_stays_dropped_in_its_row() -> None:
    torch.manual_seed(0)
    child = Child(5, 4, 2, (0.5, 1.0, 1.0))
    words = torch.randint(5, (200, 12))
    mask = child._word_mask(words)
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    for row, kept in zip(words.tolist(), mask.tolist(), strict=True):
        gone: set[int] = set()
        for word, value in zip(row, kept, strict=True):
            assert value == 0 or word not in gone
            if value == 0:
                gone.add(word)
    assert float((mask[:, 0] == 0).float().mean()) == pytest.approx(0.5, abs=0.1)


def test_words_follow_zipfs_law_and_lookups_are_the_batchs() -> None:
    """Rank 1 has share 1 / (3.7 H), with H the sum of 1 / (r + 2.7) over 10,000 words."""
    config = TASK.configure("paper", batch_size=400)
    ids = TASK.lookups(config, 3)["child.embedding.weight"]
    total = sum(1 / (rank + 2.7) for rank in range(1, 10_001))
    assert ids.shape == (400 * 35,)
    assert float((ids == 0).mean()) == pytest.approx(1 / (3.7 * total), abs=0.006)
    tiny = TASK.configure("tiny")
    batch = TASK.build(tiny).batch(3)
    assert np.array_equal(TASK.lookups(tiny, 3)["child.embedding.weight"], batch.words.flatten().numpy())
    assert torch.equal(batch.words[:, 1:], batch.targets[:, :-1])
    steep = TASK.lookups(config, 3, zipf=2.0)["child.embedding.weight"]
    assert float((steep == 0).mean()) == pytest.approx(6 / math.pi**2, abs=0.02)


def test_it_learns() -> None:
    """Guessing costs ln 200 = 5.30 a word, and the words' own entropy, the least that can be reached, is 4.66."""
    task = built(batch_size=16)
    losses = [float(task.step(task.batch(index))) for index in range(70)]
    assert losses[0] == pytest.approx(math.log(200), abs=0.1)
    assert 4.66 - 0.15 < sum(losses[-14:]) / 14 < 4.95


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nodes": "1"}, "nodes 1 is refused: give a whole number from 2 up"),
        ({"bptt": "0"}, "bptt 0 is refused"),
        ({"keep_state": "0"}, "keep_state 0.0 is refused: it is a share"),
        ({"baseline": "1"}, "baseline 1.0 is refused"),
        ({"clip": "0"}, "clip 0.0 is refused"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
