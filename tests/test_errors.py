"""Errors: what they say, what they suggest, and the exit codes that scripts rely on."""

from __future__ import annotations

import pytest

from wcbench import errors
from wcbench.errors import UnknownNameError, WcbenchError


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("WcbenchError", 1),
        ("RecordError", 1),
        ("TaskError", 1),
        ("CaptureError", 1),
        ("UsageError", 2),
        ("UnknownNameError", 2),
        ("GateError", 3),
    ],
)
def test_exit_codes(name: str, code: int) -> None:
    cls = getattr(errors, name)
    assert issubclass(cls, WcbenchError)
    assert cls.exit_code == code


def test_interrupted_is_what_shells_report() -> None:
    assert errors.EXIT_INTERRUPTED == 128 + 2


def test_the_text_is_message_and_hint() -> None:
    assert str(WcbenchError("What happened.", "What to do.")) == "What happened.\nWhat to do."
    assert str(WcbenchError("What happened.")) == "What happened."


def test_the_nearest_name_is_suggested() -> None:
    error = UnknownNameError("preset", "smal", ["paper", "small", "tiny"])
    assert error.message == "Unknown preset 'smal'."
    assert error.hint == "Did you mean 'small'?"
    assert error.suggestions == ["small"]
    assert error.name == "smal"


def test_two_names_equally_near_are_both_suggested() -> None:
    error = UnknownNameError("pass", "timin", ["timine", "timing", "memory"])
    assert sorted(error.suggestions) == ["timine", "timing"]
    assert " or " in str(error)


def test_nothing_near_lists_what_is_known() -> None:
    error = UnknownNameError("preset", "qqqqqq", ["tiny", "paper"])
    assert error.suggestions == []
    assert error.hint == "Known: paper, tiny."


def test_a_long_list_is_cut_at_twenty() -> None:
    names = [f"name{index:02}" for index in range(21)]
    hint = UnknownNameError("thing", "zzz", names).hint or ""
    assert "name19 ..." in hint
    assert "name20" not in hint


def test_an_empty_list_says_so() -> None:
    assert UnknownNameError("variant", "x", []).hint == "No variant is known."


def test_words_lead_to_the_names_they_stand_for() -> None:
    words = {"resnet": "image-classification", "image-classification": "image-classification", "bert": "nlp"}
    error = UnknownNameError("task", "ResNt", words, "See the list.")
    assert error.suggestions == ["image-classification"]
    assert error.hint == "Did you mean 'image-classification'? See the list."


@pytest.mark.parametrize("name", ["", "ÜÜ", "a" * 5000, "[x]", "a\nb"])
def test_odd_names_do_not_break_it(name: str) -> None:
    assert name in UnknownNameError("task", name, ["image-classification"]).message
