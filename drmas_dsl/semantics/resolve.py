"""From trees to a checked system: the semantic stage from beginning to end.

Reads top to bottom: declarations, overrides, params, inheritance, models and agents, sections, prompts, training. Every
step reports what it finds and goes on, so that all findings come in one run. The flow is left to lowering.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from os.path import abspath, dirname

from drmas_dsl.diagnostics.diagnostic import Diagnostic, Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.patterns import statements, variables_of
from drmas_dsl.graph.settings import BLOCKS, Agent, Model, System, Train
from drmas_dsl.semantics.checked import Checked, PromptRead
from drmas_dsl.semantics.context import OVERRIDE, Context
from drmas_dsl.semantics.declarations import Program, load
from drmas_dsl.semantics.entities import agents_of, check_shape, models_of, output_types, tools_of
from drmas_dsl.semantics.expressions import Scope, Typed, expression_functions
from drmas_dsl.semantics.nodes import Entity, Node, inherit, node_of
from drmas_dsl.semantics.overrides import Targets, apply_overrides
from drmas_dsl.semantics.params import evaluate_params
from drmas_dsl.semantics.prompts import PromptNames, check_prompt
from drmas_dsl.semantics.sections import columns_by_file, datasets_of, eval_of, pools_of, task_of, train_of
from drmas_dsl.semantics.training import check_agent, check_aggregate, check_model, check_train, policies_of
from drmas_dsl.semantics.types import ANY, Type
from drmas_dsl.semantics.values import values
from drmas_dsl.semantics.walk import names_in
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Source, Span

# Findings that may follow from a declaration or setting that the parser could not read.
_CASCADES = ("E0201", "E0208", "E0210", "E0303", "E0402", "E0403")


def resolve(
    main: ast.File, sources: dict[str, Source], overrides: Sequence[str] = (), partial: bool = False
) -> tuple[Checked | None, list[Diagnostic]]:
    """The checked system of a file and what it uses, with all findings about it.

    Args:
        main: The parsed main file.
        sources: Every file that was read, by its name in spans; files that are read here are added.
        overrides: `PATH=VALUE` each, as given with `--set`.
        partial: The file has syntax errors: findings that may follow from what could not be read are left out.

    Returns:
        The system, also where there are findings, so that the flow can be checked; None without a `system`.
    """
    report = Report()
    context = Context(report, dirname(abspath(main.path)), sources)
    program = load(main, context)
    checked = _checked(program, overrides, context)
    partial = partial or any(
        found.code.startswith("E01") and found.span.file != OVERRIDE for found in report.diagnostics
    )
    found = [one for one in report.diagnostics if not _follows(one, partial, program, sources)]
    return checked, list(dict.fromkeys(found))


def _follows(finding: Diagnostic, partial: bool, program: Program, sources: Mapping[str, Source]) -> bool:
    """Whether a finding may only follow from another: a syntax error, or a name that is declared twice."""
    if partial and finding.code in _CASCADES:
        return True
    if finding.code not in ("E0201", "E0211") or not program.ambiguous:
        return False
    source = sources.get(finding.span.file)
    return source is not None and source.text[finding.span.start : finding.span.end] in program.ambiguous


def _checked(program: Program, overrides: Sequence[str], context: Context) -> Checked | None:
    report = context.report
    own = {name: node_of(entity.items, entity.name.span, report) for name, entity in program.entities.items()}
    sections = {kind: node_of(section.items, section.keyword, report) for kind, section in program.sections.items()}
    targets = Targets(program, own, sections)
    apply_overrides(overrides, targets, context)
    params = evaluate_params(program.params, targets.params, context)
    entities = inherit(program.entities, own, context.others, report)
    _check_shapes(program, own, sections, context)

    used = {name for entity in entities.values() if entity.declaration.kind == "agent" for name in _model_named(entity)}
    models = models_of(entities, used, context)
    agents, prompts = agents_of(entities, models, context)
    tools, tool_calls = tools_of(program, targets.tools, context)

    empty = Node(Span("", 0, 0))
    task_node = sections.get("task", empty)
    datasets = datasets_of(task_node, context)
    scope = Scope(
        agents={name: output_types(entities[name].node, agent.outputs) for name, agent in agents.items()},
        params=params,
        columns=columns_by_file(task_node, datasets, context),
        functions=expression_functions() | {name: f.signature("reward") for name, f in context.plugins.items()},
        others={name: what for name, what in context.others.items() if name not in agents},
    )
    task = task_of(task_node, datasets, _reward_scope(scope, program), context)
    if "task" in program.sections and "reward" not in task_node.settings:
        help = Help("write `reward = …`, for instance `exact_match(result, task.answer)`")
        report.add("E0303", "`task` has no `reward`", program.sections["task"].keyword, help=help)
    train = train_of(sections.get("train", empty), context)
    evaluation = eval_of(sections.get("eval", empty), context)
    pools = pools_of(sections.get("resources", empty), models, agents, context)

    reads = _check_prompts(prompts, scope, program, report)
    _check_training(models, agents, entities, train, sections.get("train", empty), task_node, context)
    _check_agent_rewards(task_node, agents, report)

    if program.system is None:
        return None
    description = program.system.description
    system = System(
        name=program.system.name.name,
        description="" if description is None else description.value,
        params=params,
        models=models,
        policies=policies_of(models, agents),
        agents=agents,
        tools=tools,
        task=task,
        train=train,
        eval=evaluation,
        pools=pools,
        plugins=tuple(program.plugins),
        base=context.base,
    )
    return Checked(system, program.flow, program.patterns, params, reads, context.places, scope, tool_calls)


def _check_shapes(program: Program, own: Mapping[str, Node], sections: Mapping[str, Node], context: Context) -> None:
    for name, node in own.items():
        kind = program.entities[name].kind
        check_shape(kind, f"{kind} `{name}`", node, context)
        values(BLOCKS[kind], f"{kind} `{name}`", node, name, context)  # findings speak of who wrote it, not of heirs
    for kind, node in sections.items():
        check_shape(kind, f"`{kind}`", node, context)


def _model_named(entity: Entity) -> Iterator[str]:
    setting = entity.node.settings.get("model")
    if setting is not None and isinstance(setting.value, ast.Name):
        yield setting.value.name


# The task's expressions


def _reward_scope(scope: Scope, program: Program) -> Scope:
    """What rewards see. Whether an agent behind a `parallel N` left a list is the flow's to say, so its outputs go with
    everything here; variables of the flow are not visible."""
    several = _called_in_copies(program)
    agents: dict[str, Mapping[str, Type]] = {
        name: dict.fromkeys(outputs, ANY) if name in several else outputs for name, outputs in scope.agents.items()
    }
    return dataclasses.replace(scope, agents=agents, reward=True, extra={"result": Typed(ANY, {"kind": "result"})})


def _called_in_copies(program: Program) -> set[str]:
    """Names that stand inside a `parallel N` of any flow."""
    flows = [flow for flow in (program.flow, *program.patterns.values()) if flow is not None]
    found: set[str] = set()
    for flow in flows:
        for statement in statements(flow.body):
            if isinstance(statement, ast.Parallel) and statement.count is not None:
                for inner in statements(statement.body):
                    if isinstance(inner, ast.Do):
                        found |= names_in(inner.target)
    return found


# Prompts


def _check_prompts(
    prompts: Mapping[str, ast.Text], scope: Scope, program: Program, report: Report
) -> dict[str, tuple[PromptRead, ...]]:
    """The reads of every agent's prompt; a prompt that several agents inherit is checked once."""
    flow = program.flow
    variables = frozenset(variables_of(flow.body)) if flow is not None else frozenset()
    flows = [flow, *program.patterns.values()]
    loops = any(isinstance(one, ast.Loop) for decl in flows if decl is not None for one in statements(decl.body))
    names = PromptNames(scope, variables, loops)
    done: dict[Span, tuple[PromptRead, ...]] = {}
    reads: dict[str, tuple[PromptRead, ...]] = {}
    for agent, text in prompts.items():
        if text.span not in done:
            done[text.span] = check_prompt(text, names, report)
        reads[agent] = done[text.span]
    return reads


# Training


def _check_training(
    models: Mapping[str, Model],
    agents: Mapping[str, Agent],
    entities: Mapping[str, Entity],
    train: Train,
    node: Node,
    task: Node,
    context: Context,
) -> None:
    for model in models.values():
        check_model(model, entities[model.name], context)
    for agent in agents.values():
        if agent.model in models:
            check_agent(agent, entities[agent.name], models[agent.model], entities[agent.model], context)
    check_train(train, node, task, context)
    algorithm = node.settings.get("algorithm")
    check_aggregate(train, algorithm.value.span if algorithm else None, entities, context)


def _check_agent_rewards(node: Node, agents: Mapping[str, Agent], report: Report) -> None:
    for name, setting in node.rewards.items():
        if name in agents and agents[name].frozen and setting.target is not None:
            message = f"agent `{name}` is frozen, so a reward of its own means nothing"
            report.add("E0602", message, setting.target.span, help=Help("remove it"))
