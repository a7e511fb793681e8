"""The pointer-generator: sizes by hand, its data, what it can and cannot copy, both histories, its own samples."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from wcbench.errors import UsageError
from wcbench.tasks.base import Built
from wcbench.tasks.language.text import END, FIRST_WORD, PAD, START, UNKNOWN
from wcbench.tasks.language.text_summarization import SummarySettings, TextSummarization, Titles

TASK = TextSummarization()
IMPOSSIBLE = -math.log(1e-12)  # the loss of a word of no probability


def built(preset: str = "tiny", batch_size: int | None = None, **overrides: str) -> Built:
    return TASK.build(TASK.configure(preset, batch_size=batch_size, overrides=overrides))


def test_flops_by_hand() -> None:
    """Multiply-accumulates of 55 words read and 15 written; all projections of states are made anew in each step."""
    reader = 55 * 2 * 4 * 512 * (256 + 512) + 2 * 1024 * 512
    attention = 55 * 1024**2 + 1024**2 + 2 * 55 * 1024
    step = 1280 * 256 + 4 * 512 * (256 + 512) + attention + 2816 + 2048 * 512 + 512 * 50_000
    looking_back = sum(n * 512**2 + 512**2 + 2 * n * 512 for n in range(1, 15))
    total = 2 * (reader + 15 * step + looking_back)
    assert total == 3_032_277_504
    assert total == pytest.approx(3_032_280_000, rel=1e-5)
    assert total / 2 < 2 * 15 * 55 * 1024**2


def test_parameters_by_hand() -> None:
    lstm = 4 * 512 * (256 + 512) + 2 * 4 * 512
    reader = 50_000 * 256 + 2 * lstm + 2 * (1024 * 512 + 512)
    attention = sum(2 * width**2 + 2 * width for width in (1024, 512))
    writer = lstm + (1280 * 256 + 256) + (2816 + 1) + (2048 * 512 + 512) + (512 * 50_000 + 50_000)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built("paper").modules["model"]
        assert sum(p.numel() for p in model.parameters()) == reader + attention + writer == 48_234_833


@pytest.fixture(scope="module")
def batches() -> list[tuple[Tensor, ...]]:
    titles = Titles(SummarySettings(), seed=0)
    return [titles.batch(index) for index in range(10)]


def test_lengths_are_gigawords(batches: list[tuple[Tensor, ...]]) -> None:
    """31.4 and 8.3 words on average, 99 % of them within 55 and 15."""
    assert batches[0][0].shape == (200, 55)
    assert batches[0][3].shape == (200, 15)
    for words, *_ in batches:
        lengths = (words != PAD).sum(1)
        assert (lengths.diff() <= 0).all()
    lengths = torch.cat([(words != PAD).sum(1) for words, *_ in batches]).double()
    assert float(lengths.mean()) == pytest.approx(31.4, abs=0.6)
    assert float((lengths >= 55).double().mean()) == pytest.approx(0.01, abs=0.007)
    titles = torch.cat([((title != PAD) & (title != END)).sum(1) for *_, title in batches]).double()
    assert float(titles.mean()) == pytest.approx(8.3, abs=0.2)
    assert float((titles >= 15).double().mean()) == pytest.approx(0.012, abs=0.008)


def test_words_beyond_the_vocabulary_have_numbers_of_their_own(batches: list[tuple[Tensor, ...]]) -> None:
    words, extended = (torch.cat([batch[at] for batch in batches]) for at in (0, 1))
    unknown = words == UNKNOWN
    assert torch.equal(unknown, extended >= 50_000)
    assert torch.equal(words[~unknown], extended[~unknown])
    assert int(extended.max()) < 50_010
    assert float(unknown[words != PAD].double().mean()) == pytest.approx(0.05, abs=0.005)
    for row in extended[:50]:
        numbers = row[row >= 50_000].tolist()
        assert numbers == list(range(50_000, 50_000 + len(numbers)))


def test_half_of_a_titles_words_are_its_sources(batches: list[tuple[Tensor, ...]]) -> None:
    """Frequent words are in a source by chance; words of the rarer half of the ids are not."""
    rare = copied = 0
    for _, extended, read, title in batches:
        inside = (title.unsqueeze(2) == extended.unsqueeze(1)).any(dim=2)
        chosen = (title > 5000) & (title < 50_000)
        rare, copied = rare + int(chosen.sum()), copied + int((inside & chosen).sum())
        assert inside[title >= 50_000].all()
        assert (read[:, 0] == START).all()
        assert int(read.max()) < 50_000
        following, said = read[:, 1:], title[:, :-1]
        shown = following != PAD
        assert torch.equal(following[shown], torch.where(said >= 50_000, UNKNOWN, said)[shown])
        assert torch.equal(read != PAD, title != PAD)
    assert copied / rare == pytest.approx(0.5, abs=0.04)


def losses(task: Built, batch: tuple[Tensor, ...], seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    assert task.infer is not None
    found: Tensor = task.infer(batch).detach()
    return found


def test_it_can_copy_what_the_source_has_and_nothing_else() -> None:
    """Places 0 and 1 of the source are unknown words, the last two are padding."""
    task = built(batch_size=1)
    words = torch.tensor([[UNKNOWN, UNKNOWN, 7, 9, 7, 8, PAD, PAD]])
    extended = torch.tensor([[200, 201, 7, 9, 7, 8, 202, 202]])  # the padding is given a number to catch it
    read, title = torch.tensor([[START, UNKNOWN, UNKNOWN, 7]]), torch.tensor([[200, 201, 202, 7]])
    found = losses(task, (words, extended, read, title))[0]
    assert found[0] < 10
    assert found[1] < 10
    assert found[2] == pytest.approx(IMPOSSIBLE)
    assert found[3] < 10


def test_padding_of_a_title_costs_nothing() -> None:
    task = built(batch_size=2)
    words, extended, read, title = task.batch(0)
    title = title.clone()
    title[:, 2:] = PAD
    found = losses(task, (words, extended, read, title))
    assert (found[:, 2:] == 0).all()
    assert (found[:, :2] > 0).all()


def test_a_quarter_of_the_inputs_are_own_samples() -> None:
    """A changed input word is felt at its own step only where the step does not take its own sample."""
    task = built(batch_size=1500)
    words, extended, read, title = task.batch(0)
    other = read.clone()
    other[:, 2] = (read[:, 2] - FIRST_WORD + 50) % (200 - FIRST_WORD) + FIRST_WORD
    model: Any = task.modules["model"]
    torch.nn.init.normal_(model.embedding.weight)  # fresh embeddings are nearly alike
    given = title.clone()
    given[:, 2] = 77  # of no title's padding
    changed = losses(task, (words, extended, other, given)) != losses(task, (words, extended, read, given))
    assert not changed[:, :2].any()
    assert float(changed[:, 2].double().mean()) == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize(("sampled", "free"), [("0", False), ("1", True)])
def test_samples_or_none(sampled: str, free: bool) -> None:
    task = built(sampled=sampled)
    model: Any = task.modules["model"]
    torch.nn.init.normal_(model.embedding.weight)
    batch = task.batch(0)
    assert torch.equal(losses(task, batch, seed=1), losses(task, batch, seed=2)) != free


def test_attention_remembers_what_it_gave_and_what_it_was() -> None:
    """In the second step a word's weight is exp(score) over what the first gave it; the third sees two own states."""
    task = built(batch_size=3)
    model: Any = task.modules["model"]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    scores: list[Tensor] = []
    own_scores: list[Tensor] = []
    inputs: list[Tensor] = []  # context (64), what it looked back on (32), state (32), cell (32), word
    states: list[Tensor] = []
    model.decoder.own_fit.register_forward_hook(lambda _, __, output: own_scores.append(output))
    model.decoder.source_fit.register_forward_hook(lambda _, __, output: scores.append(output))
    model.decoder.generate.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    model.encoder.register_forward_hook(lambda _, __, output: states.append(output[0]))
    batch = task.batch(0)
    losses(task, batch)
    real = batch[0] != PAD
    first = torch.where(real, scores[0].exp(), 0)
    second = torch.where(real, scores[1].exp() / (scores[0].exp() + 1e-10), 0)
    for parts, given in zip((first, second), inputs, strict=False):
        weights = parts / parts.sum(1, keepdim=True)
        context = (weights.unsqueeze(2) * states[0]).sum(1)
        assert torch.allclose(given[:, :64], context, atol=1e-5)
    own = [given[:, 96:128] for given in inputs]
    assert (inputs[0][:, 64:96] == 0).all()
    assert torch.allclose(inputs[1][:, 64:96], own[0], atol=1e-6)
    shares = own_scores[1].softmax(dim=1)  # (batch, 2)
    assert torch.allclose(inputs[2][:, 64:96], shares[:, :1] * own[0] + shares[:, 1:] * own[1], atol=1e-5)


def test_the_loss_is_the_mean_of_the_titles_means() -> None:
    task = built(batch_size=5, title_deviation="1.5")
    batch = task.batch(0)
    found, length = losses(task, batch), (batch[3] != PAD).sum(1)
    assert len(length.unique()) > 1
    torch.manual_seed(0)  # the step draws the same samples
    expected = sum(float(row[:n].mean()) for row, n in zip(found, length.tolist(), strict=True)) / 5
    assert float(task.step(batch)) == pytest.approx(expected, rel=1e-5)


def test_lookups_are_the_sources_then_step_by_step() -> None:
    config = TASK.configure("tiny")
    words, _, read, _ = TASK.build(config).batch(2)
    ids = TASK.lookups(config, 2)["model.embedding.weight"]
    assert ids.tolist() == [*words.flatten().tolist(), *(int(word) for step in read.unbind(1) for word in step)]


def test_it_learns() -> None:
    task = built(batch_size=32, lr="0.01")
    found = [float(task.step(task.batch(index))) for index in range(40)]
    assert sum(found[-5:]) < 0.75 * sum(found[:5])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"source": "0"}, "source 0 is refused: it lies above 0"),
        ({"oov": "0"}, "oov 0 is refused"),
        ({"title_deviation": "0"}, "title_deviation 0.0 is refused"),
        ({"sampled": "1.5"}, "sampled 1.5 is refused: it is a share"),
        ({"vocab": "4"}, "4 of its entries are no words"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TASK.configure("paper", overrides=overrides)
