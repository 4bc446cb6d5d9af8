"""The full-size systems carry the published settings."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphs
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from runtime.data import load_rows
from tests.graphs.local import rolled_out

GRAPHS = Path(graphs.__file__).parent

# questions, group, context, max_tokens, updates, penalty, entropy
PUBLISHED = {
    "math": (32, 8, 8192 + 4096, 4096, 1, 0.1, 0.0),
    "search": (128, 5, 4096 + 800, 800, 5, 0.01, 0.001),
    "heterogeneous": (128, 5, 4096 + 800, 800, 5, 0.01, 0.001),
}


@pytest.fixture(params=sorted(PUBLISHED))
def case(request):
    return system_of(compile_file(GRAPHS / f"{request.param}.mas")), PUBLISHED[request.param]


def test_training(case):
    system, (questions, group, _, _, updates, _, entropy) = case
    train = system.train
    assert (train.batch_size, train.group_size, train.mini_updates) == (questions, group, updates)
    assert train.algorithm.function == "grpo" and train.normalize.function == "agent"
    args = train.algorithm.args
    assert (args["clip"], args["kl"], args["entropy"]) == (0.2, 0.0, entropy)


def test_agents(case):
    system, (_, _, context, max_tokens, _, penalty, _) = case
    for agent in system.agents.values():
        assert (agent.penalty, agent.sampling.max_tokens, agent.sampling.temperature) == (penalty, max_tokens, 1.0)
        assert system.models[agent.model].context >= context  # more only means that less history is dropped
    assert {policy.optimizer.lr for policy in system.policies.values()} == {1e-6}
    assert len(system.policies) == len(system.agents)


def test_evaluation(case):
    evaluation = case[0].eval
    assert (evaluation.samples, evaluation.k, evaluation.temperature, evaluation.top_p) == (16, (1, 16), 0.6, 0.95)


def test_search_and_answer_think_first():
    agents = system_of(compile_file(GRAPHS / "search.mas")).agents
    after = {name: [output.parser.args["after"] for output in agent.outputs] for name, agent in agents.items()}
    assert after == {"Verifier": [None], "Search": ["think"], "Answer": ["think"]}


def test_router_is_larger_than_the_workers():
    system = system_of(compile_file(GRAPHS / "heterogeneous.mas"))
    sizes = {name: system.models[agent.model].weights for name, agent in system.agents.items()}
    assert "7B" in sizes["Verifier"] and "3B" in sizes["Search"] and sizes["Search"] == sizes["Answer"]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_runs_with_small_weights(name):
    """A random model over bytes: nothing parses, every path ends, nothing fails."""
    small = ["model.weights=tiny(hidden = 16, layers = 1, heads = 2)", "model.engine=hf"]
    agents = system_of(compile_file(GRAPHS / f"{name}.mas")).agents
    graph = compile_file(GRAPHS / f"{name}.mas", [*small, *(f"{agent}.sampling.max_tokens=8" for agent in agents)])
    system = system_of(graph)
    assert system.task.train is not None
    trajectories = rolled_out(graph, load_rows(system.task.train, system.base)[:2], 2)
    assert [trajectory.failed for trajectory in trajectories] == [None] * 4
    assert all(trajectory.turns and trajectory.reward == 0 for trajectory in trajectories)
