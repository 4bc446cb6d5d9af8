"""The sections: task, train, eval and resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.settings import Agent, Call, Eval, Expression, Model, Pool, Task, Train
from drmas_dsl.semantics.calls import bind_call
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.datasets import columns_of
from drmas_dsl.semantics.expressions import Scope, Typed, condition, typed
from drmas_dsl.semantics.nodes import Node
from drmas_dsl.semantics.suggest import unknown
from drmas_dsl.semantics.training import is_remote
from drmas_dsl.semantics.types import FLOAT
from drmas_dsl.semantics.values import record, values
from drmas_dsl.syntax import ast


def datasets_of(node: Node, context: Context) -> dict[str, Any]:
    """`train` and `test` of the task, as its fields; one dataset of `test` is named "test"."""
    found = values(Task, "`task`", node, "task", context)
    test: dict[str, Call] = {}
    one = node.settings.get("test")
    if one is not None:
        call = bind_call(one.value, "dataset", context)
        if call is not None:
            test["test"] = call
    several = node.blocks.get("test")
    if several is not None:
        for name, setting in several.settings.items():
            context.places[f"task.test.{name}"] = setting.name.span
            call = bind_call(setting.value, "dataset", context)
            if call is not None:
                test[name] = call
        for block in several.blocks.values():
            context.report.add("E0312", "`test` holds datasets", block.place, help=Help('write `name = dataset("…")`'))
    train = found.get("train")
    return {"train": train if isinstance(train, Call) else None, "test": test}


def columns_by_file(node: Node, fields: Mapping[str, Any], context: Context) -> dict[str, frozenset[str]]:
    """The columns of every dataset that can be looked into, by its file."""
    settings = {"train": node.settings.get("train"), "test": node.settings.get("test")}
    if "test" in node.blocks:
        settings |= {f"test.{name}": setting for name, setting in node.blocks["test"].settings.items()}
    calls = {"train": fields["train"], "test": fields["test"].get("test")}
    calls |= {f"test.{name}": call for name, call in fields["test"].items()}
    columns: dict[str, frozenset[str]] = {}
    seen: set[str] = set()
    for name, setting in settings.items():
        call = calls.get(name)
        if setting is None or call is None or str(call.args) in seen:
            continue
        seen.add(str(call.args))
        columns |= columns_of(call, setting.value.span, context)
    return columns


def task_of(node: Node, fields: Mapping[str, Any], scope: Scope, context: Context) -> Task:
    """The task; `scope` is that of rewards."""
    report = context.report
    reward = node.settings.get("reward")
    found = None if reward is None else _reward(reward.value, scope, report)
    agent_rewards: dict[str, Expression] = {}
    for name, setting in node.rewards.items():
        assert setting.target is not None
        context.places[f"task.reward.{name}"] = setting.name.span
        if name not in scope.agents:
            unknown(report, "E0201", f"there is no agent `{name}`", name, setting.target.span, scope.agents)
        agent_rewards[name] = _reward(setting.value, scope, report).expression
    success = node.settings.get("success")
    expression = None
    if success is not None:
        known = {"reward": Typed(FLOAT, found.expression)} if found is not None else {}
        inner = replace(scope, extra={**scope.extra, **known})
        expression = condition(success.value, inner, report).expression
    return Task(
        train=fields["train"],
        test=fields["test"],
        reward=None if found is None else found.expression,
        agent_rewards=agent_rewards,
        success=expression,
    )


def _reward(expr: ast.Expr, scope: Scope, report: Report) -> Typed:
    found = typed(expr, scope, report)
    if found.type.kind not in ("int", "float", "bool", "any"):
        help = Help("compare it, for instance with `equal(result, task.answer)`")
        report.add("E0301", f"a reward is a number, this is {found.type}", expr.span, help=help)
    return found


def train_of(node: Node, context: Context) -> Train:
    """The training loop's settings."""
    train: Train = record(Train, "`train`", node, "train", context)
    return train


def eval_of(node: Node, context: Context) -> Eval:
    """The evaluation's settings; no `k` may be above the samples."""
    found: Eval = record(Eval, "`eval`", node, "eval", context)
    setting = node.settings.get("k")
    if setting is not None and max(found.k, default=0) > found.samples:
        message = f"`k` is {max(found.k)}, above the {found.samples} samples of a question"
        context.report.add("E0302", message, setting.value.span, help=Help("raise `samples`, or lower `k`"))
    return found


def pools_of(node: Node, models: Mapping[str, Model], agents: Mapping[str, Agent], context: Context) -> dict[str, Pool]:
    """The pools; every model that agents use and this machine serves lives in one of them."""
    pools: dict[str, Pool] = {}
    homes: dict[str, str] = {}
    for setting in node.settings.values():
        message = f"`resources` has no setting `{setting.name.name}`"
        context.report.add("E0206", message, setting.name.span, help=Help("it holds pools: `pool main { gpus = 4 }`"))
    for block in node.blocks.values():
        context.report.add("E0206", "`resources` holds pools", block.place, help=Help("write `pool name { … }`"))
    for name, pool_node in node.pools.items():
        pool: Pool = record(Pool, f"pool `{name}`", pool_node, f"resources.{name}", context, name=name)
        pools[name] = pool
        setting_of_models = pool_node.settings.get("models")
        for model in pool.models:
            if setting_of_models is None:
                continue
            span = setting_of_models.value.span
            if model in homes:
                context.report.add("E0312", f"model `{model}` lives in pool `{homes[model]}` already", span)
            elif model in models and is_remote(models[model]):
                context.report.add("E0312", f"model `{model}` is remote and lives in no pool", span)
            homes.setdefault(model, name)
    if pools and all(pool.models for pool in pools.values()):
        for model in dict.fromkeys(agent.model for agent in agents.values()):
            if model in models and model not in homes and not is_remote(models[model]):
                message = f"model `{model}` lives in no pool"
                help = Help("name it in the `models` of a pool, or leave the `models` of one pool away")
                context.report.add("E0312", message, context.places[model], help=help)
    return pools
