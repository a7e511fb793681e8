"""The short forms of a profile: what a notebook cell and the prompt show.

Both take any profile, an empty one too, and neither draws with matplotlib: a `repr` has to be instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wcbench.reports import format as fmt
from wcbench.reports.lead_imported import converged, doubts
from wcbench.reports.palette import category_color
from wcbench.reports.sections._common import (
    HOST_MARKS,
    Summary,
    block,
    conditions,
    descending,
    device_step,
    file_name,
    files,
    imported,
    main_pass,
    mapping,
    note_lines,
    rows,
    run_pass,
    spread,
    step_hint,
    task_name,
)
from wcbench.reports.sections.hotspots import counted, noun
from wcbench.reports.sections.overview import device_name

if TYPE_CHECKING:
    from wcbench.record import Profile

TEXT_HOTSPOTS = 5
HTML_HOTSPOTS = 10
NAME_WIDTH = 60


def profile_text(profile: Profile) -> str:
    """A few lines of plain text: what, where, how long, how much, and the longest hotspots."""
    summary = profile.view("summary")
    pairs = [(label, value) for label, value in _pairs(summary) if value]
    lines = [fmt.prose(task_name(summary)), *(f"  {label:<10} {fmt.prose(value)}" for label, value in pairs)]
    lines += _text_hotspots(summary)
    notes = len(list(note_lines(summary)))
    if notes:
        lines.append(f"  {'notes':<10} {fmt.plural(notes, 'note')} on what is missing or doubtful: .view('notes')")
    return "\n".join(lines)


def _pairs(summary: Summary) -> Iterator[tuple[str, str]]:
    """Labels and values of the short forms; a value that is not known is empty."""
    timing = main_pass(summary)
    yield "record", str(summary.get("run") or "")
    yield "read from", ", ".join(file_name(file) for file in files(summary)[:3])
    yield "device", ", ".join(word for word in (str(timing.get("device") or ""), _hardware(summary, timing)) if word)
    yield "ran at", ", ".join(word for word in (_preset(timing), str(timing.get("precision") or "")) if word)
    yield "step", _imported_step(timing) if imported(summary) else _step(run_pass(summary, "timing"))
    yield "runs", converged(summary)
    yield "activity", _activity(summary)
    yield "doubt", doubts(summary)
    yield "caution", str((summary.get("noise") or ("",))[0])
    yield "model", _model(summary)
    yield "work", _work(summary)
    yield "memory", _memory(summary)
    if not mapping(summary.get("passes")):
        yield "passes", "none"


def _hardware(summary: Summary, timing: Mapping[str, Any]) -> str:
    return device_name(summary, timing["device"]) if timing.get("device") else ""


def _preset(timing: Mapping[str, Any]) -> str:
    words = conditions({"preset": timing.get("preset"), "batch_size": timing.get("batch_size")})
    return "" if words == "conditions unknown" else words


def _step(timing: Mapping[str, Any]) -> str:
    times, details = spread(timing), step_hint(timing)
    if times.median is None:
        return ""
    rate = timing.get("samples_per_s")
    throughput = f", {fmt.rate(rate, times)} samples/s" if rate is not None else ""
    return f"{fmt.spread_ms(times)}{f' ({details})' if details else ''}{throughput}"


def _imported_step(timing: Mapping[str, Any]) -> str:
    """The host's marks, and how long the kernels of a step span where that is longer."""
    host, device = _step(timing), device_step(timing)
    on_device = "" if device is None else f"; kernels span {fmt.show(device, 'time_ms')} on the device"
    return f"{host} {HOST_MARKS}{on_device}" if host else ""


def _activity(summary: Summary) -> str:
    part = mapping(summary.get("activity"))
    if not part:
        return ""
    busy = "" if part.get("utilization") is None else f", busy {fmt.share(part['utilization'])} of the span"
    return f"{fmt.plural(part.get('calls') or 0, 'execution')}, {fmt.show(part.get('sum_ns'), 'time_ns')}{busy}"


def _model(summary: Summary) -> str:
    params = mapping(summary.get("complexity")).get("params_total")
    return "" if params is None else fmt.plural(params, "parameter")


def _work(summary: Summary) -> str:
    part = mapping(summary.get("complexity"))
    flops, every, covered = (part.get(key) for key in ("flops_matrix_step", "flops_all_step", "coverage_calls"))
    if flops is None:
        return ""
    words = [
        _preset(part),
        "" if every is None else f"{fmt.si(every, 'FLOP')} in all",
        "" if covered is None else f"{fmt.share(covered)} of operator calls counted",
    ]
    return f"{fmt.si(flops, 'FLOP')} of matrix work a step ({'; '.join(word for word in words if word)})"


def _memory(summary: Summary) -> str:
    part = mapping(summary.get("memory"))
    peak = part.get("peak_bytes")
    where = _preset(part)
    return "" if peak is None else f"{fmt.binary_bytes(peak)} alive at the step's peak{f' ({where})' if where else ''}"


def _text_hotspots(summary: Summary) -> Iterator[str]:
    part = mapping(summary.get("hotspots"))
    listed = rows(part.get("rows"))
    if not listed:
        return
    yield f"  hotspots   share of {fmt.prose(part.get('of') or 'time')}, {counted(part, len(listed))} in all"
    first = listed[:TEXT_HOTSPOTS]
    for row, name in zip(first, fmt.apart([str(row.get("name")) for row in first], NAME_WIDTH), strict=True):
        yield f"    {fmt.share(row.get('time_share')):>7}  {name}"


def profile_html(profile: Profile) -> str:
    """A fragment for a notebook cell: title, facts, bar of the categories, ten hotspots. Needs no other style."""
    from wcbench.reports.html import environment

    summary = profile.view("summary")
    part = mapping(summary.get("hotspots"))
    listed = rows(part.get("rows"))
    first = listed[:HTML_HOTSPOTS]
    names = fmt.apart([str(row.get("name")) for row in first], NAME_WIDTH)
    times = fmt.column([row.get("time_ns") for row in first], "time_ns")
    return (
        environment()
        .get_template("fragment.html")
        .render(
            title=task_name(summary),
            facts=[(label, value) for label, value in _pairs(summary) if value],
            of=str(part.get("of") or "time"),
            noun=noun(part),
            time_unit=times.unit,
            hotspots=[_html_hotspot(*cells) for cells in zip(first, names, times.cells, strict=True)],
            hidden=max(0, len(listed) - HTML_HOTSPOTS),
            categories=_html_categories(summary),
            notes=len(list(note_lines(summary))),
        )
    )


def _html_hotspot(row: Mapping[str, Any], name: str, time: str) -> dict[str, str]:
    return {
        "name": name,
        "color": category_color(str(row.get("category"))),
        "category": fmt.shorten(str(row.get("category") or fmt.ABSENT), 30),
        "time": time,
        "share": fmt.share(row.get("time_share")),
    }


def _html_categories(summary: Summary) -> list[dict[str, str]]:
    """The full view as pieces of one bar; their widths are the shares themselves."""
    part = block(summary, "categories")
    found = [(name, value) for name, value in descending(part.get("full") if part else None) if value > 0]
    return [
        {
            "name": short,
            "share": fmt.share(value),
            "width": f"{min(100 * value, 100):.3f}%",
            "color": category_color(name),
        }
        for (name, value), short in zip(found, fmt.apart([name for name, _ in found], 30), strict=True)
    ]
