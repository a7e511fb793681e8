"""The registry: explicit rows, lazy targets, suggestions, and plugins that cannot take away what works."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from wcbench import registry
from wcbench.errors import UnknownNameError, WcbenchError
from wcbench.registry import Registry, Row, load_target

TAU = Row("tau", "math:tau", aliases=("C-1",), keywords=("circle", "turn"))
COMPLEX = Row("complex", "cmath:sqrt")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Entry points of the group "things", as if packages had them."""
    found: list[EntryPoint] = []

    def entry_points(*, group: str) -> EntryPoints:
        return EntryPoints(point for point in found if point.group == group)

    monkeypatch.setattr(registry, "entry_points", entry_points)
    return found


def test_names_keep_the_order_of_the_list_and_leave_aliases_out() -> None:
    things = Registry("thing", [TAU, COMPLEX])
    assert things.names() == ["tau", "complex"]
    assert list(things) == [TAU, COMPLEX]


def test_an_alias_is_a_name_in_full_right() -> None:
    things = Registry("thing", [TAU])
    assert "C-1" in things
    assert things.row("C-1") is TAU
    assert things.load("C-1") == pytest.approx(6.283185307179586)


def test_a_keyword_only_suggests() -> None:
    things = Registry("thing", [TAU, COMPLEX])
    assert "circle" not in things
    with pytest.raises(UnknownNameError, match=r"Unknown thing 'circle'\.\nDid you mean 'tau'\?"):
        things.row("circle")


def test_an_alias_in_the_wrong_case_is_suggested() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'tau'"):
        Registry("thing", [TAU]).row("c-1")


@pytest.mark.parametrize(
    "second",
    [
        Row("tau", "other:x"),
        Row("C-1", "other:x"),
        Row("new", "other:x", aliases=("tau",)),
        Row("new", "other:x", aliases=("C-1",)),
        Row("new", "other:x", aliases=("new",)),
        Row("new", "other:x", aliases=("twice", "twice")),
    ],
)
def test_a_name_or_alias_given_twice_raises_at_once(second: Row) -> None:
    things = Registry("thing", [TAU])
    with pytest.raises(WcbenchError, match=r"Two things are named '.+'\.\nThe second is other:x"):
        things.add(second)
    assert things.names() == ["tau"]


def test_nothing_is_imported_before_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy_thing.py").write_text("value = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    things = Registry("thing", [Row("lazy", "lazy_thing:value")])
    assert "lazy" in things
    assert things.row("lazy").target == "lazy_thing:value"
    assert "lazy_thing" not in sys.modules
    assert things.load("lazy") == 42
    assert sys.modules.pop("lazy_thing").value == 42


@pytest.mark.parametrize("target", ["no_such_module_here:x", "math:no_such_attribute", "math"])
def test_a_target_that_is_not_there_is_told_with_kind_and_name(target: str) -> None:
    with pytest.raises(WcbenchError, match=f"The thing 'broken' cannot be loaded from {target}") as caught:
        Registry("thing", [Row("broken", target, aliases=("b",))]).load("b")
    assert caught.value.exit_code == 1


def test_load_target_takes_module_and_attribute() -> None:
    assert load_target("os.path:basename")("a/b") == "b"


def test_entry_points_add_rows(plugins: list[EntryPoint]) -> None:
    plugins += [EntryPoint("pi", "math:pi", "things"), EntryPoint("e", "math:e", "other group")]
    things = Registry("thing", [TAU], group="things")
    assert things.names() == ["tau", "pi"]
    assert things.load("pi") == pytest.approx(3.141592653589793)


def test_entry_points_are_not_looked_for_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(**_: str) -> EntryPoints:
        raise AssertionError

    monkeypatch.setattr(registry, "entry_points", forbidden)
    assert Registry("thing", [TAU]).names() == ["tau"]


@pytest.mark.parametrize("taken", ["tau", "C-1"])
def test_a_plugin_whose_name_is_taken_is_left_out_with_a_warning(plugins: list[EntryPoint], taken: str) -> None:
    plugins += [EntryPoint(taken, "evil:thing", "things"), EntryPoint("pi", "math:pi", "things")]
    things = Registry("thing", [TAU], group="things")
    with pytest.warns(UserWarning, match=f"Two things are named '{taken}'.*evil:thing.* left out"):
        assert things.names() == ["tau", "pi"]
    assert things.row(taken) is TAU
    assert things.names() == ["tau", "pi"]  # and no second warning


def test_the_warning_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip would leave it: a .dist-info with an entry point."""
    info = tmp_path / "rude_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rude-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[wcbench.test_things]\ntau = rude_plugin:Tau\n")
    monkeypatch.syspath_prepend(tmp_path)
    things = Registry("thing", [TAU], group="wcbench.test_things")
    with pytest.warns(UserWarning, match="package rude-plugin"):
        things.names()


def test_a_plugin_that_cannot_be_imported_does_not_break_the_rest(plugins: list[EntryPoint]) -> None:
    plugins.append(EntryPoint("gone", "uninstalled_plugin:Thing", "things"))
    things = Registry("thing", [TAU], group="things")
    assert things.names() == ["tau", "gone"]
    assert things.load("tau") > 6
    with pytest.raises(WcbenchError, match="'gone' cannot be loaded from uninstalled_plugin:Thing"):
        things.load("gone")
