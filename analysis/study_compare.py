"""The comparisons of a study: suites as they are, the subset against the other suite and its own, further suites."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

from wcbench.analysis.diversity import Extras, Options, diversity
from wcbench.analysis.panel import Diversity
from wcbench.analysis.recipe import Placed
from wcbench.analysis.study_comparison import Comparison
from wcbench.analysis.study_facets import all_facets
from wcbench.analysis.study_inputs import Group, Inputs, Radius, Settings, devices_of, times_of
from wcbench.analysis.subset import Subset, choose_in
from wcbench.analysis.table import FeatureTable, Space
from wcbench.analysis.transform import to_space
from wcbench.analysis.verdict import Source
from wcbench.errors import WcbenchError


def compare(
    inputs: Inputs, space: Placed, radius: Radius, *, subset: Subset, settings: Settings, tell: Callable[[str], None]
) -> tuple[Comparison, ...]:
    """All comparisons of a study against another group; none without one."""
    if inputs.against is None:
        return ()
    a, b = inputs.studied, inputs.against
    tell(f"comparison with {b.title}")
    about = " ".join(inputs.incomplete[one.id] for one in (a, b) if one.id in inputs.incomplete)
    whole = _made("suites", _against(a, b), settings, lambda: _whole(inputs, radius, settings), about)
    if whole.panel is not None:
        tell("facets")
        found = all_facets(inputs, whole.panel, partial(_source, settings=settings), _options(settings, robust=False))
        whole = replace(whole, facets=found)
    tell("comparison of subsets")
    subsets = _of_subsets(inputs, space, radius, subset, settings)
    return (whole, *subsets, *_further(inputs, radius, settings, tell))


def _against(a: Group, b: Group) -> str:
    return f"{a.title} against {b.title}"


def _made(id: str, title: str, settings: Settings, make: Callable[[], Diversity], about: str = "") -> Comparison:
    try:
        return Comparison(id, title, make(), about=about, seed=settings.seed)
    except WcbenchError as error:
        return Comparison(id, title, None, str(error).replace("\n", " "), about=about)


def _whole(inputs: Inputs, radius: Radius, settings: Settings) -> Diversity:
    a, b = inputs.studied, inputs.against
    assert b is not None
    names = (*a.workloads, *b.workloads)
    extras = Extras(
        shared=_shared(inputs, names),
        classes={name: inputs.classes[name] for name in names if name in inputs.classes} or None,
        levels={name: inputs.levels[name] for name in names if name in inputs.levels} or None,
        hotspots=times_of(inputs),
        devices=devices_of(inputs),
    )
    return diversity(
        _source(inputs.table, settings),
        a.workloads,
        b.workloads,
        labels=(a.title, b.title),
        radius=_reach(inputs, radius),
        extras=extras,
        variants=_variants(inputs, names),
        options=_options(settings),
    )


def _options(settings: Settings, robust: bool | None = None) -> Options:
    wanted = settings.robust if robust is None else robust
    return Options(permutations=settings.permutations, seed=settings.seed, robust=wanted)


def _source(table: FeatureTable, settings: Settings) -> Source:
    return Source(partial(to_space, nulls=settings.nulls, scale=settings.scale), table)


def _reach(inputs: Inputs, radius: Radius) -> float | Callable[[Space], float] | None:
    """r* of each space, measured anew; the radius given; None where none is known."""
    changed = inputs.changed
    if radius.how == "given":
        return radius.value
    if changed is None or radius.star is None:
        return None

    def measured(space: Space) -> float:
        assert isinstance(space, Placed)
        return changed.radius(space).value

    return measured


def _shared(inputs: Inputs, names: Collection[str]) -> tuple[str, ...]:
    """Workloads that are one task under two names, of which both are here."""
    known = set(names)
    return tuple(sorted({name for one in inputs.same if set(one) <= known for name in one}))


def _variants(inputs: Inputs, names: Collection[str]) -> dict[str, Any]:
    proposed = [name for name in names if inputs.identities.get(name) == "proposed"]
    found: dict[str, Any] = {}
    if proposed:
        found["without tasks of proposed identity"] = tuple(name for name in names if name not in proposed)
    return found | dict(inputs.others)


# --- subsets ----------------------------------------------------------------------------------------------------------


def _of_subsets(
    inputs: Inputs, space: Placed, radius: Radius, subset: Subset, settings: Settings
) -> tuple[Comparison, ...]:
    """The subset against the other suite, and against that suite's own minimal subset of equal size; frozen space."""
    a, b = inputs.studied, inputs.against
    assert b is not None
    there = [name for name in b.workloads if name in set(space.names)]
    if not there:
        return ()
    other = choose_in(_part(space, there), radius.value, table=inputs.table)
    k = min(len(subset), len(other.curve))
    ours = subset.members if k == len(subset) else tuple(subset.curve.iloc[k - 1]["members"])
    theirs = tuple(other.curve.iloc[k - 1]["members"])
    reach = radius.value if radius.how == "given" else None if radius.star is None else radius.star.value
    fit = Source(lambda names: _part(space, names))

    def panel(one: Collection[str], two: Collection[str], labels: tuple[str, str]) -> Diversity:
        extras = Extras(shared=_shared(inputs, (*one, *two)), families=inputs.table.families)
        options = _options(settings, robust=False)
        return diversity(fit, one, two, labels=labels, radius=reach, extras=extras, options=options)

    name = f"the subset of {a.title}"
    equal = (f"the best {k} of {a.title}", f"the best {k} of {b.title}")
    about = (
        f"{b.title} alone needs {len(other)} of its {len(there)} tasks at r = {radius.value:.4g}: "
        f"{', '.join(other.members)}"
    )
    first = _made("subset", f"{name} against {b.title}", settings,
                  lambda: panel(subset.members, there, (name, b.title)), about)  # fmt: skip
    title = f"best subsets of {k} tasks of {a.title} and {b.title}"
    members = f"{', '.join(ours)} against {', '.join(theirs)}"
    return first, _made("subsets", title, settings, lambda: panel(ours, theirs, equal), members)


def _part(space: Placed, names: Collection[str]) -> Placed:
    kept = [name for name in space.names if name in set(names)]
    return replace(space, points=space.points.loc[kept])


# --- further suites ---------------------------------------------------------------------------------------------------


def _further(inputs: Inputs, radius: Radius, settings: Settings, tell: Callable[[str], None]) -> tuple[Comparison, ...]:
    """Both groups against each further suite, in a space of their own, without repeats."""
    found = []
    assert inputs.against is not None
    for other in inputs.also:
        for group in (inputs.studied, inputs.against):
            tell(f"{group.title} against {other.title}")
            make = partial(_two, inputs, group, other, radius, settings)
            about = inputs.incomplete.get(other.id, "")
            found.append(_made(f"{group.id}:{other.id}", _against(group, other), settings, make, about))
    return tuple(found)


def _two(inputs: Inputs, a: Group, b: Group, radius: Radius, settings: Settings) -> Diversity:
    return diversity(
        _source(inputs.wide or inputs.table, settings),
        a.workloads,
        b.workloads,
        labels=(a.title, b.title),
        radius=_reach(inputs, radius),
        extras=Extras(shared=_shared(inputs, (*a.workloads, *b.workloads))),
        options=_options(settings, robust=False),
    )
