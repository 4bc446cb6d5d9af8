"""The shipped models: small, exact with text, made as their script says, and able to play their systems."""

from __future__ import annotations

import dataclasses
import json
import random
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphs
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from graphs.models import teachers
from graphs.models.teachers import Noise
from graphs.models.warm_start import RECIPES, WORD, demonstrations, warm_start
from runtime.data import load_rows
from runtime.models import load_model, load_tokenizer
from tests.graphs.local import rolled_out

GRAPHS = Path(graphs.__file__).parent


def compiled(name):
    return compile_file(GRAPHS / f"{name}.mas")


@lru_cache
def tokenizer(name):
    return load_tokenizer(system_of(compiled(name)).models["policy"], str(GRAPHS))


@pytest.mark.parametrize("name", RECIPES)
def test_model_loads_and_is_small(name):
    model = load_model(system_of(compiled(name)).models["policy"], str(GRAPHS))
    assert sum(parameter.numel() for parameter in model.parameters()) < 150_000
    assert sum(path.stat().st_size for path in (GRAPHS / "models" / name).iterdir()) < 1_000_000
    assert model.get_output_embeddings().weight.shape[0] == len(tokenizer(name))


@pytest.mark.parametrize("name", RECIPES)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_decoding_gives_back_the_text(name, text):
    assert tokenizer(name).decode(tokenizer(name)(text).input_ids) == text


@pytest.mark.parametrize("name", RECIPES)
def test_tags_are_single_tokens(name):
    words = ["<verify>", "</verify>", *(["approve", "reject"] if name == "arithmetic" else ["yes", "no", "<search>"])]
    assert [len(tokenizer(name)(word).input_ids) for word in words] == [1] * len(words)


def test_same_recipe_gives_the_same_files(tmp_path):
    recipe = dataclasses.replace(RECIPES["arithmetic"], walks=2, steps=3)
    for folder in ("one", "two"):
        warm_start("arithmetic", recipe, tmp_path / folder)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two and "model.safetensors" in one


@pytest.mark.parametrize("name", RECIPES)
def test_words_of_the_tokenizer_are_those_of_the_prompts(name):
    """Stale when a prompt changes: then the model must be made again."""
    recipe = dataclasses.replace(RECIPES[name], walks=4)
    asked = " ".join(prompt + response for prompt, response in demonstrations(name, recipe))
    added = json.loads((GRAPHS / "models" / name / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    words = {token["content"] for token in added if not token["special"]}
    assert words - {"unknown"} <= set(WORD.findall(asked))
    assert set(WORD.findall(asked)) <= words


def test_noise_is_as_large_as_it_says():
    rng = random.Random(0)
    prompt = "1 hop from k\nEnough?"
    said = [teachers.look_up("Verifier", prompt, Noise(0.0, 0.3), rng) for _ in range(4000)]
    assert abs(said.count("<verify>yes</verify>") / 4000 - 0.3) < 0.03
    said = [teachers.look_up("Search", prompt, Noise(0.5, 0.0), rng) for _ in range(4000)]
    assert abs(said.count("<search>k</search>") / 4000 - (0.5 + 0.5 / 25)) < 0.03


@pytest.mark.parametrize(
    ("name", "low", "high"), [("lookup", 0.2, 0.4), ("arithmetic", 0.12, 0.4), ("contrast", 0.08, 0.4)]
)
def test_started_team_is_weak_and_well_formed(name, low, high):
    """It solves some of its questions, and leaves something to learn."""
    graph = compiled(name)
    (call,) = system_of(graph).task.test.values()
    trajectories = rolled_out(graph, load_rows(call, str(GRAPHS))[:40], 8)
    assert [trajectory.failed for trajectory in trajectories if trajectory.failed] == []
    assert low <= sum(trajectory.success for trajectory in trajectories) / len(trajectories) <= high
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    assert sum(turn.valid for turn in turns) / len(turns) > 0.9
