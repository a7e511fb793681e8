"""The answer of a comparison in a few sentences, made of its document alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wcbench.analysis.diff_hotspots import BY_NAME, WORDS

Document = Mapping[str, Any]

NAMED = 2
"""Parts that a sentence names."""
UNLIKE = 4
"""Conditions that the first sentence names."""
QUIET = ("samples", "warmup")
"""Conditions that the table has and the sentence leaves out: the batch says the first."""
PAIRED = 0.5
"""Share of both times from which on single functions are worth naming: below it most have no partner."""
SMALL = 1.05
"""Ratio of two times up to which running again may explain a difference; a caution, no test. One run each tells nothing
of what runs differ by: the layout of memory alone moves times by several per cent (Mytkowicz et al., ASPLOS 2009)."""
_PER = {"step": "a step", "sample": "a sample", "record": "in all"}
_PLACES = ("gpus.0.name", "cpu.model", "packages.torch", "gpus.0.driver", "versions.cuda_driver_version",
           "versions.cuda_runtime_version", "cpu.usable_cores", "wcbench.commit")  # fmt: skip
_WORDS = {"gpus.0.name": "GPU", "cpu.model": "CPU", "packages.torch": "torch", "cpu.usable_cores": "usable cores",
          "gpus.0.driver": "driver", "wcbench.commit": "commit"}  # fmt: skip


def answer(document: Document, named: Callable[[str], str] = str) -> list[str]:
    """What is unlike; how the steps differ, with a caution where times or records are doubtful; where the difference
    lies; what training runs needed. ``named`` shortens the name of a function."""
    sentences = [
        _conditions(document),
        _time(document),
        *_cautions(document),
        _where(document, named),
        *_trained(document),
    ]
    return [sentence for sentence in sentences if sentence]


def _conditions(document: Document) -> str:
    a, b = document["a"], document["b"]
    names = f"A and B are both {a['label']}" if a["label"] == b["label"] else f"A is {a['label']}, B is {b['label']}"
    unlike, silent = list(_unlike(document)), _silent(document)
    if unlike:
        told = f"{names}; they differ in {'; '.join(unlike[:UNLIKE])}"
    elif document["machine"] or any(row["what"] not in QUIET for row in document["conditions"]):
        told = f"{names}; no condition that both tell differs"
    else:
        told = f"{names}, run alike{' as far as the files tell' if silent else ''}"
    if len(unlike) > UNLIKE:
        told += f"; and in {len(unlike) - UNLIKE} more conditions"
    told = ". ".join(sentence for sentence in (told, silent) if sentence)
    return f"{told}. Times are per sample." if document["per"] == "sample" else f"{told}."


def _silent(document: Document) -> str:
    """What imported files do not tell, and so may differ."""
    rows = document["untold"]
    if not rows:
        return ""
    if len(rows) == 2 and rows[0]["what"] == rows[1]["what"]:
        said = f"{_words(rows[0]['what'])} of both"
    else:
        said = " and ".join(f"{_words(row['what'])} of {row['side']}" for row in rows)
    a, b = document["a"], document["b"]
    same = "" if a["label"] == b["label"] or document["trainings"] else ", and whether they are one workload"
    return f"The imported files do not tell {said}{same}"


def _words(names: Sequence[str]) -> str:
    return ", ".join(map(_plain, names))


def _unlike(document: Document) -> Iterator[str]:
    """Conditions that both tell, and otherwise; the workload and the machine first."""
    a, b = document["a"], document["b"]
    if a["label"] != b["label"] and not (a["imported"] or b["imported"]):
        yield "the workload itself"
    known = {row["what"]: row for row in document["machine"] if row["a"] is not None and row["b"] is not None}
    for what in _PLACES[:2]:
        if what in known:
            yield _both(_WORDS[what], known[what])
    for row in document["conditions"]:
        if row["what"] not in QUIET and row["a"] is not None and row["b"] is not None:
            yield _both(_plain(row["what"]) + _of(document, row), row)
    for what in _PLACES[2:]:
        if what in known:
            yield _both(_WORDS.get(what, what), known[what])
    others = len(known) - len(set(_PLACES) & set(known))
    if others:
        yield f"{others} more detail{'s' if others > 1 else ''} of the machine"


def _of(document: Document, row: Mapping[str, Any]) -> str:
    """In which pass, where it is not the one whose times count."""
    main = document["time"]["a_pass"]
    passes = row["passes"]
    told = main in passes or any(" against " in name for name in passes)
    return "" if told else f" of pass {', '.join(passes)}"


def _both(what: str, row: Mapping[str, Any]) -> str:
    left, right = (_value(row[side])[:60] for side in "ab")
    return f"{what} {left} against {right}"


def _value(value: Any) -> str:
    """A condition in words: of kinds of steps ``0.9 train, 0.1 test``."""
    return (
        ", ".join(f"{share:.3g} {kind}" for kind, share in value.items()) if isinstance(value, Mapping) else str(value)
    )


def _plain(what: str) -> str:
    return re.sub(r"^torch\.", "", what).replace("_", " ")


def _time(document: Document) -> str:
    time, spots = document["time"], document["hotspots"]
    if time["ratio"] is None:
        if spots is None:
            return "" if document["trainings"] else f"Step times are not compared: {time['reason']}."
        totals = f"B has {_ms(spots['total_b_ns'])} of {spots['of'][1]} against {_ms(spots['total_a_ns'])} of A"
        per = _PER.get(str(spots["per"]))
        if per is None:
            totals = (
                f"A has {_ms(spots['total_a_ns'])} of {spots['of'][0]} in {WORDS[spots['basis'][0]]}, "
                f"B {_ms(spots['total_b_ns'])} of {spots['of'][1]} in {WORDS[spots['basis'][1]]}"
            )
        return f"Step times are not compared ({time['reason']}); {f'{per}, ' if per else ''}{totals}."
    of = time["per"]
    samples = "" if of == "step" else f" of {time['b_samples']:g} and {time['a_samples']:g} samples"
    medians = f"{_ms(1e6 * time['b_ms'])} a step against {_ms(1e6 * time['a_ms'])}{samples}{_marks(time)}"
    if time["told_apart"] is None:
        return f"A {of} of B takes {time['ratio']:.3g} times as long as one of A ({medians}; {time['reason']})."
    interval = f"95 % interval {time['low']:.3g} to {time['high']:.3g}"
    if not time["told_apart"]:
        return f"The times of a {of} are not told apart: B / A is {time['ratio']:.3g}, {interval} ({medians})."
    return f"A {of} of B takes {time['ratio']:.3g} times as long as one of A, {interval} ({medians})."


def _marks(time: Mapping[str, Any]) -> str:
    words = ["by the host's marks"] if time["a_host_marks"] or time["b_host_marks"] else []
    ranks = [time["a_ranks"] or 1, time["b_ranks"] or 1]
    if max(ranks) > 1:
        words.append(f"medians over {ranks[0]} and {ranks[1]} ranks")
    return f", {', '.join(words)}" if words else ""


def _cautions(document: Document) -> Iterator[str]:
    time = document["time"]
    if time["told_apart"] and 1 / SMALL < time["ratio"] < SMALL:
        yield (
            "So small a difference may come from running again: the interval is of the steps of one run each, and does "
            "not hold what runs differ by."
        )
    noisy = [side.upper() for side in "ab" if document[side]["noise"]]
    if noisy:
        yield f"Do not rely on the times of {' and '.join(noisy)}: the record shows a machine that was not quiet."
    for side in "AB":
        failed = [row["about"] for row in document["doubts"] if row["side"] == side]
        if failed:
            yield f"{side} fails checks of plausibility ({', '.join(failed[:NAMED])})."


def _where(document: Document, named: Callable[[str], str]) -> str:
    spots = document["hotspots"]
    if spots is None:
        return "" if document["trainings"] else "Where the time goes cannot be compared: hotspots of both are needed."
    if spots["per"] is None:
        first = " and ".join(f"{row['category']} ({_points(row)})" for row in spots["full"][:NAMED])
        return (
            f"Times of functions are not subtracted ({spots['unlike']}); of each one's own time most differs {first}."
        )
    of = spots["of"][0] if spots["of"][0] == spots["of"][1] else spots["unlike"]
    parts = [row for row in spots["full"] if row["difference_ns"]][:NAMED]
    if not parts:
        return f"Both spend the same {of}."
    said = " and ".join(f"{row['category']} ({_signed(row['difference_ns'])})" for row in parts)
    whole = f"B − A in {of} is {_signed(spots['difference_ns'])} {_PER[spots['per']]}, most of it in {said}"
    return f"{whole}; {_function(spots, named)}."


def _function(spots: Mapping[str, Any], named: Callable[[str], str]) -> str:
    """The function that differs most, or that most functions have no partner."""
    shares = [share or 0.0 for share in spots["matched_share"]]
    if min(shares) < PAIRED:
        held = [f"{100 * share:.0f} % of {side}'s" for side, share in zip("AB", shares, strict=True)]
        return f"functions with a partner in the other hold {held[0]} time and {held[1]}"
    first = next(row for row in spots["rows"] if row["difference_ns"])
    name = named(first["name"])
    if first["matched"] not in (None, BY_NAME):
        others = len(first["names"]) - 1
        name = f"{name} with {others} of a like name, taken for its partner{'s' if others > 1 else ''}"
    return f"the function that differs most is {name} ({_signed(first['difference_ns'])})"


def _points(row: Mapping[str, Any]) -> str:
    return f"{100 * (row['a_share'] or 0):.3g} % of A, {100 * (row['b_share'] or 0):.3g} % of B"


def _trained(document: Document) -> Iterator[str]:
    """What the first benchmark's runs needed in time and epochs (or samples)."""
    rows = document["trainings"]
    if not rows:
        return
    first = [row for row in rows if row["benchmark"] == rows[0]["benchmark"]][:NAMED]
    said = [
        f"{row['b']:.4g} {row['unit']} against {row['a']:.4g}"
        + ("" if row["ratio"] is None else f" (B / A {row['ratio']:.3g}{_interval(row)})")
        for row in first
    ]
    runs = f"medians of {first[0]['b_runs']} and {first[0]['a_runs']} successful runs"
    others = len({row["benchmark"] for row in rows}) - 1
    more = f"; {others} more benchmark{'s' if others > 1 else ''} in the table" if others else ""
    yield f"To its target {rows[0]['benchmark']} needs in B {' and '.join(said)}, {runs}{more}."


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return "; too few runs for an interval"
    return f", 95 % interval {row['low']:.3g} to {row['high']:.3g}"


def _ms(ns: float) -> str:
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(ns) >= factor:
            return f"{ns / factor:.3g} {unit}"
    return f"{ns:.3g} ns"


def _signed(ns: float) -> str:
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{_ms(abs(ns))}"
