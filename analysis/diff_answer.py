"""The answer of a comparison in three sentences, made of its document alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]

NAMED = 2
"""Parts that a sentence names."""


def answer(document: Document) -> list[str]:
    """What is unlike; how the steps differ; where the difference lies, and a caution where the machine was noisy."""
    noisy = [side for side in "ab" if document[side]["noise"]]
    doubt = []
    if noisy:
        who = " and ".join(side.upper() for side in noisy)
        doubt = [f"Do not rely on the times of {who}: the record shows a machine that was not quiet."]
    return [_conditions(document), _time(document), *doubt, _where(document)]


def _conditions(document: Document) -> str:
    a, b = document["a"], document["b"]
    names = f"A is {a['label']}, B is {b['label']}"
    unlike = [f"{row['what'].replace('_', ' ')} {_said(row['a'])} against {_said(row['b'])}"
              for row in document["conditions"] if row["what"] != "samples"]  # fmt: skip
    if a["label"] != b["label"]:
        unlike.insert(0, "the workload itself")
    hosts = [row["what"] for row in document["machine"] if row["what"] in ("cpu.model", "gpus")]
    if hosts:
        unlike.append("the machine")
    if not unlike:
        return f"{names}, run alike."
    per = ", times are per sample" if document["per"] == "sample" else ""
    return f"{names}; they differ in {'; '.join(unlike[:4])}{' and more' if len(unlike) > 4 else ''}{per}."


def _said(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _time(document: Document) -> str:
    time, of = document["time"], document["per"]
    if time["ratio"] is None:
        spots = document["hotspots"]
        if spots is None:
            return f"Step times are not compared: {time['reason']}."
        return (
            f"Step times are not compared ({time['reason']}); in all, B has {_ms(spots['total_b_ns'])} of "
            f"{spots['of'][1]} against {_ms(spots['total_a_ns'])} of A."
        )
    a, b = time["a_ms"], time["b_ms"]
    medians = f"{_ms(1e6 * b)} a step against {_ms(1e6 * a)}"
    if time["told_apart"] is None:
        return f"A {of} of B takes {time['ratio']:.3g} times as long as one of A ({medians}; {time['reason']})."
    interval = f"95 % interval {time['low']:.3g} to {time['high']:.3g}"
    if not time["told_apart"]:
        return f"The times of a {of} are not told apart: B / A is {time['ratio']:.3g}, {interval} ({medians})."
    return f"A {of} of B takes {time['ratio']:.3g} times as long as one of A, {interval} ({medians})."


def _where(document: Document) -> str:
    spots = document["hotspots"]
    if spots is None:
        return "Where the time goes cannot be compared: hotspots of both would be needed."
    of = spots["of"][0] if spots["unlike"] is None else spots["unlike"]
    parts = [row for row in spots["full"] if row["difference_ns"]][:NAMED]
    if not parts:
        return f"Both spend the same {of}."
    said = " and ".join(f"{row['category']} ({_signed(row['difference_ns'])})" for row in parts)
    first = next(row for row in spots["rows"] if row["difference_ns"])
    return (
        f"Of the difference in {of}, {_signed(spots['difference_ns'])} a {document['per']}, most is in {said}; the "
        f"function that differs most is {first['name'][:120]} ({_signed(first['difference_ns'])})."
    )


def _ms(ns: float) -> str:
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(ns) >= factor:
            return f"{ns / factor:.3g} {unit}"
    return f"{ns:.3g} ns"


def _signed(ns: float) -> str:
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{_ms(abs(ns))}"
