"""Built-in functions against the table of signatures, plug-ins, reducers and rewards."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.semantics.functions import FUNCTIONS, REQUIRED, TOOL_CALLS
from drmas_dsl.semantics.plugins import GROUP
from runtime.rollout import reducers, rewards
from runtime.rollout.functions import BUILT_IN, ENTRY_POINTS, find
from tests.rollout.support import agent, system

KINDS = ("parser", "reducer", "reward", "tool")


def test_the_table_and_the_implementations_name_the_same_functions():
    assert set(BUILT_IN) == {key for key in FUNCTIONS if key[0] in KINDS}


@pytest.mark.parametrize(("kind", "name"), sorted(BUILT_IN))
def test_parameters_agree_with_the_table(kind: str, name: str):
    own = list(inspect.signature(BUILT_IN[kind, name]).parameters.values())
    if kind == "parser":
        assert own.pop(0).name == "text"
    if kind == "tool":
        called = [parameter for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        assert [parameter.name for parameter in called] == [parameter.name for parameter in TOOL_CALLS[name]]
        own = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
    table = FUNCTIONS[kind, name].parameters
    assert [parameter.name for parameter in own] == [parameter.name.removeprefix("*") for parameter in table]
    for ours, theirs in zip(own, table, strict=True):
        if not theirs.name.startswith("*"):
            assert ours.default == (inspect.Parameter.empty if theirs.default is REQUIRED else theirs.default)


def test_plugins_are_found_by_name(tmp_path: Path):
    (tmp_path / "mine.py").write_text("HALF = 0.5\ndef half(answer, gold):\n    return HALF\n")
    made = system([agent("A")], plugins=({"path": "mine.py"},), base=str(tmp_path))
    assert find(made, "reward", "half")(answer=1, gold=2) == 0.5
    with pytest.raises(UserError, match="there is no reward `third`"):
        find(made, "reward", "third")


def test_the_entry_points_group_is_the_compilers():
    assert ENTRY_POINTS == GROUP


def test_a_plugin_that_does_not_load_says_why(tmp_path: Path):
    (tmp_path / "mine.py").write_text("import nothing_of_that_name\n")
    made = system([agent("A")], plugins=({"path": "mine.py"},), base=str(tmp_path))
    with pytest.raises(UserError, match="does not load: ModuleNotFoundError"):
        find(made, "reward", "half")


def test_a_plugin_that_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match=r"cannot read .*gone\.py: No such file"):
        find(system([agent("A")], plugins=({"path": "gone.py"},), base=str(tmp_path)), "reward", "half")


def test_reducers():
    assert reducers.vote(["b", None, "a", "a", "b", None, None]) == "b"
    assert reducers.vote([{"x": 1}, {"x": 2}, {"x": 2}]) == {"x": 2}
    assert reducers.first([None, "x", "y"]) == "x"
    assert reducers.best(["a", "b", "c", None], by=[1.0, 3.0, 3.0, 9.0]) == "b"
    assert reducers.best(["a", "b"], by=[None, 0.0]) == "b"
    assert reducers.concat(["a", None, 3]) == "a\n3" and reducers.concat(["a", "b"], separator=", ") == "a, b"
    assert reducers.count(["a", None, "a", "b"]) == 3 and reducers.count(["a", None, "a"], value="a") == 2


def test_reducers_of_what_is_not_bound():
    assert (reducers.vote(None), reducers.first(None), reducers.best(None, None), reducers.count(None)) == (
        None,
        None,
        None,
        0,
    )
    assert reducers.concat(None) == ""


@pytest.mark.parametrize("reward", [rewards.math_equal, rewards.exact_match, rewards.f1, rewards.equal])
def test_every_reward_of_none_is_0(reward: Any):
    assert reward(None, "1") == reward("1", None) == reward(None, None) == reward("1", []) == 0.0
    assert reward("1", "1") == reward("1", ["2", "1"]) == reward("1", ["1", None]) == 1.0


def test_exact_match_and_f1_normalise_as_squad_does():
    assert rewards.exact_match(" The  Eiffel-Tower! ", "eiffeltower") == 1.0
    assert rewards.exact_match("tower", "a tower") == 1.0 and rewards.exact_match("then", "n") == 0.0
    assert rewards.f1("the big red car", ["blue car", "red car"]) == pytest.approx(2 * 2 / 5)
    assert rewards.f1("red red", "red") == pytest.approx(2 / 3) and rewards.f1("the", "a") == 1.0
    assert rewards.f1("x", "the") == 0.0


def test_equal_takes_texts_as_they_are():
    assert rewards.equal(" A ", "A") == 1.0 and rewards.equal("a", "A") == 0.0
    assert rewards.equal(4.0, "4") == rewards.equal(4.0, 4) == 1.0 and rewards.equal(0.5, "0.5") == 1.0
