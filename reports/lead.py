"""The answer in a few sentences: how long, on what, how much. Written from the summary, whatever part of it exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wcbench.reports import format as fmt
from wcbench.reports.lead_imported import doubts, lead_imported
from wcbench.reports.sections._common import (
    Summary,
    block,
    conditions,
    descending,
    imported,
    rows,
    run_pass,
    spread,
    step_hint,
    task_name,
)
from wcbench.reports.sections.hotspots import counted, noun

EXACT_BELOW = 1_000_000
"""Parameter counts are written out below this, with a prefix from it on."""


def lead(summary: Summary) -> tuple[str, ...]:
    """Three sentences: step time, where it goes, size and work. A part that is absent is said to be absent.

    One more follows the time where the machine was too noisy for the times to be trusted, and one where the record
    fails a check of plausibility. An imported record has sentences of its own (`lead_imported`).
    """
    if imported(summary):
        sentences = lead_imported(summary, _hotspots, _size)
    else:
        sentences = (_time(summary), _caution(summary), doubts(summary), _hotspots(summary), _size(summary))
    return tuple(fmt.prose(sentence) for sentence in sentences if sentence)


def _caution(summary: Summary) -> str:
    reasons = summary.get("noise") or ()
    return f"Do not rely on the times: {str(reasons[0])[:1].lower()}{str(reasons[0])[1:]}" if reasons else ""


def _time(summary: Summary) -> str:
    name, timing = task_name(summary), run_pass(summary, "timing")
    times = spread(timing)
    if times.median is None:
        return f"No step of {name} was timed." if not timing else f"The timing pass of {name} has no step time."
    details = step_hint(timing)
    rate = timing.get("samples_per_s")
    throughput = f": {fmt.rate(rate, times)} samples/s" if rate is not None else ""
    return (
        f"{name} takes {fmt.spread_ms(times)} a step{f' ({details})' if details else ''} "
        f"at {conditions(timing)}{throughput}."
    )


def _hotspots(summary: Summary) -> str:
    spots = block(summary, "hotspots")
    if spots is None:
        return "Where the time goes was not measured."
    listed = rows(spots.get("rows"))
    if not listed:
        return f"No {noun(spots)} was recorded."
    leader = _leader(summary, str(spots.get("of") or "time"))
    top = _top(listed, noun(spots), counted(spots, len(listed)))
    if leader and top:
        return f"{leader}; {top}."
    return f"{leader or top[:1].upper() + top[1:] or f'Its {noun(spots)}s have no share of the time'}."


def _leader(summary: Summary, of: str) -> str:
    """Which category has the most, by the full view, whose names say more than the paper's."""
    part = block(summary, "categories")
    shares = descending(part.get("full") if part else None)
    if not shares or not shares[0][1]:
        return ""
    name, value = shares[0]
    name = "names that no rule knows" if name == "unknown" else name
    amount = "Most" if value > 0.5 else "The largest part"
    return f"{amount} of the {of} goes to {name} ({fmt.share(value)})"


def _top(listed: Any, word: str, of: str) -> str:
    if len(listed) == 1:
        return f"it is all in one {word}"
    top = min(3, len(listed) - 1)
    together = listed[top - 1].get("cumulative_share")
    if together is None:
        return ""
    verb, subject = ("makes", "longest") if top == 1 else ("make", f"top {top}")
    return f"the {subject} of {of} {verb} up {fmt.share(together)}"


def _size(summary: Summary) -> str:
    part = block(summary, "complexity")
    if part is None:
        return "Its parameters and its arithmetic were not counted."
    params, work = part.get("params_total"), _work(part)
    where = _where(part, run_pass(summary, "timing"))
    if params is None and not work:
        return "Its parameters and its arithmetic could not be counted."
    live = _live(summary, part)
    counted = part.get("continued")
    if counted:
        where = f"{where}{'continued' if where else 'Continued'} from length {fmt.count(counted['counted_length'])} to "
        where += f"{fmt.count(counted['length'])}, "
    if params is None:
        return _sentence(f"{where}it does {work}{live}.")
    has = f"{where}it has {_parameters(params)}"
    if not work:
        return _sentence(f"{has}{live}; its arithmetic could not be counted.")
    return _sentence(f"{has} and does {work}{live}.")


def _work(part: Mapping[str, Any]) -> str:
    """Both totals and their coverage; empty where nothing was counted."""
    whole = part.get("continued") or part
    matrix, every = whole.get("flops_matrix_step"), whole.get("flops_all_step")
    if matrix is None:
        return ""
    words = "" if every is None else f"{fmt.si(every, 'FLOP')} in all"
    inside = ", ".join(word for word in (words, _coverage(part)) if word)
    return f"{fmt.si(matrix, 'FLOP')} of matrix work {_step(part)}{f' ({inside})' if inside else ''}"


def _step(part: Mapping[str, Any]) -> str:
    """``a step``, or an average one with the kinds that it is made of."""
    kinds = sorted(rows(part.get("kinds")), key=lambda row: -float(row.get("share") or 0))
    if len(kinds) < 2:
        return "a step"
    return f"in an average step, {fmt.share(kinds[0].get('share'))} of them {kinds[0].get('kind')}"


def _live(summary: Summary, part: Mapping[str, Any]) -> str:
    """What is alive at the peak, where the model saw the same step."""
    model = block(summary, "memory") or {}
    same = all(model.get(key) == part.get(key) for key in ("preset", "batch_size"))
    peak = model.get("peak_bytes") if same else None
    peaks = model.get("peak_kinds") or {}
    continued = (part.get("continued") or {}).get("peak_bytes")
    if peak is None:
        return ""
    if continued is not None:
        return f", with {fmt.binary_bytes(continued)} alive at its peak"
    if len(peaks) > 1:
        kind = max(peaks, key=lambda name: float(peaks[name]))
        return f", with {fmt.binary_bytes(peaks[kind])} alive at the peak of a {kind} step"
    return f", with {fmt.binary_bytes(peak)} alive at its peak"


def _parameters(params: int) -> str:
    return f"{fmt.si(params)} parameters" if params >= EXACT_BELOW else fmt.plural(params, "parameter")


def _where(part: Mapping[str, Any], timing: Mapping[str, Any]) -> str:
    """Says the preset and batch where they are not those of the step time: the reader would take them as the same."""
    if timing and all(part.get(key) == timing.get(key) for key in ("preset", "batch_size")):
        return ""
    words = conditions({"preset": part.get("preset"), "batch_size": part.get("batch_size")})
    return f"At {words}, " if words != "conditions unknown" else ""


def _coverage(part: Mapping[str, Any]) -> str:
    """How much of the work the count covers, unless it is all of it."""
    covered = part.get("coverage_calls")
    return "" if covered is None or covered == 1 else f"counted for {fmt.share(covered)} of the operator calls"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
