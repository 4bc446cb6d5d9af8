"""Models, agents and tools after inheritance, as records of the schema.

An agent's `chat` and the settings of its policy lie over its model's. What only training cares about is checked in
`training`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from drmas_dsl.diagnostics.diagnostic import Help
from drmas_dsl.graph.settings import BLOCKS, Agent, Model, Output, Tool
from drmas_dsl.semantics.calls import BAD, bind_call
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.declarations import Program
from drmas_dsl.semantics.functions import FUNCTIONS, TOOL_CALLS, Signature
from drmas_dsl.semantics.nodes import Entity, Node, merged
from drmas_dsl.semantics.plugins import installed_function
from drmas_dsl.semantics.training import POLICY_SETTINGS, is_remote
from drmas_dsl.semantics.types import ANY, STRING, Type, declared
from drmas_dsl.semantics.values import values
from drmas_dsl.syntax import ast

_OUTPUT_TYPES = {"string": "string", "float": "float", "int": "float", "bool": "bool"}


def check_shape(kind: str, what: str, node: Node, context: Context) -> None:
    """Report outputs, rewards and pools that stand in a block which has none."""
    report = context.report
    if kind not in ("agent", "role"):
        for output in node.outputs.values():
            report.add(
                "E0312", f"{what} has no outputs", output.name.span, help=Help("outputs belong to agents and roles")
            )
    if kind != "task":
        for setting in node.rewards.values():
            report.add("E0312", f"{what} has no rewards", setting.name.span, help=Help("rewards stand in `task`"))
    if kind != "resources":
        for pool in node.pools.values():
            report.add("E0312", f"{what} has no pools", pool.place, help=Help("pools stand in `resources`"))
    for name, block in node.blocks.items():
        check_shape("block", f"`{name}`", block, context)


def models_of(entities: Mapping[str, Entity], used: set[str], context: Context) -> dict[str, Model]:
    """The models, in order. `used` are those that agents name: one that only serves as a base may lack its weights, and
    is then left out."""
    models: dict[str, Model] = {}
    bases = {entity.declaration.base.name for entity in entities.values() if entity.declaration.base is not None}
    for name, entity in entities.items():
        if entity.declaration.kind != "model":
            continue
        found = values(Model, f"model `{name}`", entity.node, name, context)
        model = Model(**{key: value for key, value in found.items() if value is not BAD}, name=name)
        if model.weights is None and "weights" not in found and not is_remote(model) and not entity.broken:
            if name in bases and name not in used:
                continue
            help = Help('write `weights = "…"`: a hub id, a folder, or `gguf("file.gguf")`')
            context.report.add("E0303", f"model `{name}` has no `weights`", entity.declaration.name.span, help=help)
        remote = is_remote(model)
        models[name] = dataclasses.replace(model, frozen=model.frozen or remote)
    return models


def outputs_of(node: Node, context: Context) -> tuple[Output, ...]:
    """The outputs of an agent or role, in order; those that are wrong are reported and left out."""
    found = []
    for definition in node.outputs.values():
        key = id(definition)
        if key not in context.values:
            context.values[key] = _output(definition, context)
        if isinstance(context.values[key], Output):
            found.append(context.values[key])
    return tuple(found)


def _output(definition: ast.OutputDef, context: Context) -> Output | None:
    call = bind_call(definition.parser, "parser", context)
    if call is None:
        return None
    signature = FUNCTIONS.get(("parser", call.function))
    if signature is None:
        function = context.plugins.get(call.function) or installed_function(call.function)
        returns = function.returns if function is not None else "any"
    else:
        returns = signature.returns
    choices = tuple(call.args["options"]) if call.function == "choice" and signature is not None else ()
    return Output(definition.name.name, call, _OUTPUT_TYPES.get(declared(returns).kind, "json"), choices)


def output_types(node: Node, outputs: tuple[Output, ...]) -> dict[str, Type]:
    """The types of an agent's outputs in expressions; an output that is wrong goes with everything."""
    types = dict.fromkeys(node.outputs, ANY)
    for output in outputs:
        if output.choices:
            types[output.name] = dataclasses.replace(STRING, choices=output.choices)
        else:
            types[output.name] = ANY if output.type == "json" else Type(output.type)
    return types


def agents_of(
    entities: Mapping[str, Entity], models: Mapping[str, Model], context: Context
) -> tuple[dict[str, Agent], dict[str, ast.Text]]:
    """The agents, in order, and their prompts' texts with their places. Roles are checked on the way."""
    agents: dict[str, Agent] = {}
    prompts: dict[str, ast.Text] = {}
    for name, entity in entities.items():
        kind = entity.declaration.kind
        if kind == "role":
            values(Agent, f"role `{name}`", entity.node, name, context)
            outputs_of(entity.node, context)
        if kind != "agent":
            continue
        found = values(Agent, f"agent `{name}`", entity.node, name, context)
        _mandatory(name, entity, found, context)
        prompt = found.get("prompt")
        if isinstance(prompt, ast.Text):
            prompts[name] = prompt
            found["prompt"] = prompt.value
        given = {key: value for key, value in found.items() if value is not BAD}
        agent = Agent(**given, name=name, outputs=outputs_of(entity.node, context))
        model = models.get(agent.model)
        if model is not None:
            agent = _over(agent, entity.node, model, entities[model.name].node, context)
        agents[name] = agent
    return agents, prompts


def _mandatory(name: str, entity: Entity, found: Mapping[str, object], context: Context) -> None:
    if entity.broken:
        return
    examples = {
        "model": "write `model = …`, the name of a model",
        "prompt": 'write `prompt = """…"""` or `prompt = file("…")`',
    }
    for setting, example in examples.items():
        if setting not in found and setting not in entity.node.blocks:
            span = entity.declaration.name.span
            context.report.add("E0303", f"agent `{name}` has no `{setting}`", span, help=Help(example))


def _over(agent: Agent, node: Node, model: Model, model_node: Node, context: Context) -> Agent:
    """The agent with what it takes from its model: chat, the settings of its policy, and frozen."""
    policy = model.name if model.sharing == "full" else agent.name
    changes: dict[str, object] = {"policy": policy, "frozen": agent.frozen or model.frozen}
    for name in ("chat", *POLICY_SETTINGS):
        own_policy = name == "chat" or model.sharing != "full"
        if not own_policy or (name not in node.blocks and name not in node.settings):
            changes[name] = getattr(model, name)
        elif name in node.blocks and name in model_node.blocks:
            both = merged(model_node.blocks[name], node.blocks[name])
            found = values(BLOCKS[name], f"`{name}`", both, f"{agent.name}.{name}", context)
            changes[name] = BLOCKS[name](**{key: value for key, value in found.items() if value is not BAD})
    return dataclasses.replace(agent, **changes)  # type: ignore[arg-type]


def tools_of(
    program: Program, overrides: Mapping[str, ast.Expr], context: Context
) -> tuple[dict[str, Tool], dict[str, Signature]]:
    """The tools, in order, and the signatures of their calls in the flow."""
    tools: dict[str, Tool] = {}
    calls: dict[str, Signature] = {}
    for name, declaration in program.tools.items():
        value = overrides.get(name, declaration.value)
        call = bind_call(value, "tool", context)
        if call is not None:
            tools[name] = Tool(name, call)
        if (signature := _tool_call(name, value, context)) is not None:  # also where its settings are wrong
            calls[name] = signature
    return tools, calls


def _tool_call(name: str, value: ast.Expr, context: Context) -> Signature | None:
    """The signature of a tool's calls, by the function that its declaration names; None where there is none."""
    called = value.function.name if isinstance(value, ast.Call) else value.name if isinstance(value, ast.Name) else ""
    if ("tool", called) in FUNCTIONS:
        built_in = FUNCTIONS["tool", called]
        return Signature(name, "tool", TOOL_CALLS[called], built_in.returns, built_in.doc)
    function = context.plugins.get(called) or installed_function(called)
    return None if function is None else dataclasses.replace(function.tool_call(), name=name)
