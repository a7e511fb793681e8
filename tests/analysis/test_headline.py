"""A record in one row: the same columns always, and the numbers of the views."""

from __future__ import annotations

import pandas as pd
import pytest

import wcbench
from wcbench.record import Profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    passes = ["operators", "timing"]
    return wcbench.profile("spatial-transformer", preset="tiny", device="cpu", passes=passes, steps=3, threads=1,
                           scaling=False, save=False)  # fmt: skip


def test_the_row_is_of_the_views(profile: Profile) -> None:
    row = profile.to_frame().iloc[0]
    assert len(profile.to_frame()) == 1
    times, work = profile.view("steps")["timing"], profile.view("complexity")
    assert row["step_ms"] == times.median_ns / 1e6
    assert row["step_ms_q1"] <= row["step_ms"] <= row["step_ms_q3"]
    assert row["samples_per_s"] == pytest.approx(2 / (times.median_ns / 1e9))  # preset tiny has a batch of 2
    assert row["flops_all_step"] == work.flops_all_step
    assert row["params_total"] == int(profile.table("parameters")["numel"].sum())
    assert (row["preset"], row["counted_preset"], row["threads"]) == ("tiny", "tiny", 1)
    assert pd.isna(row["top_share"])  # no timeline


def test_absent_is_null_and_records_make_a_table(profile: Profile) -> None:
    lacking = Profile(profile.manifest)  # its tables are gone
    lacking.manifest = type(profile.manifest)(**{**vars(profile.manifest), "passes": {}, "tables": {}})
    both = pd.concat([profile.to_frame(), lacking.to_frame()], ignore_index=True)
    assert both["batch_size"].dtype == "Int64"
    assert both.loc[1, ["step_ms", "params_total", "peak_bytes", "device"]].isna().all()
    assert list(lacking.to_frame().columns) == list(profile.to_frame().columns)
