"""The 6 N rule (CASE 43), tiling bounds over a step, and the roofline of a record."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np
import pytest
import torch

import wcbench
from wcbench import Built, Config, Settings, Task
from wcbench.analysis import crosscheck
from wcbench.analysis.memory import accesses_of
from wcbench.analysis.roofline import profile_roofline
from wcbench.analysis.tiling import tiling_excess
from wcbench.errors import UnknownNameError
from wcbench.record import Profile
from wcbench.tasks.load import load_task


@pytest.fixture(scope="module")
def language() -> Profile:
    return wcbench.profile("natural-language", device="cpu", preset="tiny", passes=["operators"], save=False)


@pytest.fixture(scope="module")
def vision() -> Profile:
    return wcbench.profile("image-classification", device="cpu", preset="tiny", passes=["operators"], save=False)


def test_six_n_counts_weights_in_products_and_tokens(language: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """N by the model itself: matrices that are not looked up, and the word embedding, which the decoder multiplies."""
    task = load_task("natural-language")
    config = task.configure("tiny")
    model = task.build(config).modules["model"]
    names = dict(model.named_parameters())
    matrices = {name: p.numel() for name, p in names.items() if p.dim() == 2 and "embeddings." not in name}
    words = next(p.numel() for name, p in names.items() if name.endswith("word_embeddings.weight"))
    expected = sum(matrices.values()) + words
    monkeypatch.setattr(crosscheck, "TOLERANCE", -1.0)  # always tell
    told = crosscheck.six_n(language)
    assert told is not None
    weights, tokens = re.findall(r"([\d,]+) weights in products, ([\d,]+) tokens", told)[0]
    assert int(weights.replace(",", "")) == expected
    assert int(tokens.replace(",", "")) == config.settings.batch_size * config.settings.seq


def test_case_43_a_count_off_by_more_than_30_per_cent_is_told(
    language: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crosscheck, "_weights", lambda profile, forward: 10**9)  # as if most products were missed
    told = crosscheck.six_n(language)
    assert told is not None
    assert any(note.text == told for note in language.view("notes"))


def test_what_is_no_transformer_is_not_asked(vision: Profile) -> None:
    assert crosscheck.six_n(vision) is None


def test_tiling_excess_by_hand() -> None:
    """64^3 product in float32: F = 524,288. In 1 KiB (256 elements) it moves 524,288 / 16 elements = 131,072 B, of
    which 3 x 64 x 64 x 4 = 49,152 B are its operands; in 64 KiB 524,288 / 128 x 4 = 16,384 B, less than these. With
    windows that serve 4 positions the bound halves."""
    flops, moved, size = np.array([524_288.0]), np.array([49_152.0]), np.array([4.0])
    once = tiling_excess(flops, moved, size, np.array([1.0]), [1024, 65536])
    assert once.tolist() == [131_072 - 49_152, 0]
    assert tiling_excess(flops, moved, size, np.array([4.0]), [1024]).tolist() == [65_536 - 49_152]
    assert tiling_excess(*[np.repeat(x, 3) for x in (flops, moved, size)], np.ones(3), [1024]).tolist() == [
        3 * (131_072 - 49_152)
    ]


def test_tiled_traffic_is_never_below_the_models(vision: Profile) -> None:
    memory = wcbench.summary(vision)["memory"]
    pairs = zip(memory["traffic"], memory["traffic_tiled"], strict=True)
    assert all(tiled[0] == plain[0] and tiled[1] >= plain[1] for plain, tiled in pairs)


def test_a_record_made_on_a_processor_has_no_roofline_and_says_why(vision: Profile) -> None:
    found, reason = profile_roofline(vision)
    assert found is None
    assert reason is not None
    assert reason.startswith("no roofline: no peak figures are kept for processors")
    assert wcbench.summary(vision)["roofline"] is None
    assert any(note["about"] == "roofline" for note in wcbench.summary(vision)["notes"])


def test_the_roofline_of_a_named_device(vision: Profile) -> None:
    summary = wcbench.summary(vision, on="h100-sxm")
    roof, work = summary["roofline"], summary["complexity"]
    assert roof["dtype"] == "float32"
    assert roof["intensity"] == pytest.approx(work["flops_all_step"] / (work["bytes_read"] + work["bytes_written"]))
    assert roof["balance"] == pytest.approx(66.9e12 / 3.35e12)
    assert roof["time_ns"] >= work["flops_all_step"] / 66.9e12 * 1e9
    assert sum(point["flops"] for point in roof["points"]) == pytest.approx(work["flops_all_step"])
    with pytest.raises(UnknownNameError, match="h100"):
        wcbench.summary(vision, on="h1000")


def test_what_is_filled_and_then_scattered_into_is_written_as_a_whole(vision: Profile) -> None:
    """The gradient of cross entropy is zeros with one row entry set each: its readers do not fetch it from outside."""
    names = vision.table("operators")["name"].astype(str)
    assert (names == "aten::nll_loss_backward").any()
    accesses = accesses_of(vision)
    assert not (accesses.write & accesses.weighted).any()


@torch.library.custom_op("wcbench_crosscheck::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(Task):
    """One operator that no formula knows (reads and writes 4 x 8 floats), and a sum (reads these, writes one)."""

    presets: ClassVar = dict.fromkeys(("paper", "small", "tiny"), Settings(4))

    def build(self, config: Config) -> Built:
        def step(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return torch.ops.wcbench_crosscheck.double(x).sum()

        return Built(step, lambda index: torch.ones(4, 8), {}, 4)


def test_coverage_by_calls_and_by_bytes_of_an_operator_without_a_formula() -> None:
    work = wcbench.summary(wcbench.profile(Custom, device="cpu", passes=["operators"], save=False))["complexity"]
    assert work["uncounted"] == [{"name": "wcbench_crosscheck::double", "calls": 1}]
    assert work["coverage_calls"] == 1 / 2
    assert work["coverage_bytes"] == pytest.approx((128 + 4) / (128 + 128 + 128 + 4))
