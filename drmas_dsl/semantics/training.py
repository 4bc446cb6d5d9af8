"""Who trains what: policies from models and agents, and the findings about settings that training would ignore.

A policy is one set of trained weights: the model where it is shared in full, else each agent's copy or adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drmas_dsl.diagnostics.diagnostic import Edit, Help, Label
from drmas_dsl.graph.settings import BLOCKS, Agent, Model, Policy, Train
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.functions import FUNCTIONS
from drmas_dsl.semantics.nodes import Entity, Node
from drmas_dsl.semantics.suggest import listed
from drmas_dsl.semantics.values import facts_of
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

POLICY_SETTINGS = ("optimizer", "aggregate", "micro_tokens")


def policies_of(models: Mapping[str, Model], agents: Mapping[str, Agent]) -> dict[str, Policy]:
    """The policies, in the order of their models and agents. An agent's `frozen` already counts its model's."""
    policies: dict[str, Policy] = {}
    for model in models.values():
        own = [agent for agent in agents.values() if agent.model == model.name]
        lora = model.lora if model.sharing == "adapter" else None
        if model.sharing == "full" and own:
            frozen = all(agent.frozen for agent in own)
            names = tuple(agent.name for agent in own)
            policies[model.name] = Policy(
                model.name, model.name, names, frozen, model.optimizer, model.aggregate, model.micro_tokens, None
            )
        elif own:
            for agent in own:
                policies[agent.name] = Policy(
                    agent.name,
                    model.name,
                    (agent.name,),
                    agent.frozen,
                    agent.optimizer,
                    agent.aggregate,
                    agent.micro_tokens,
                    lora,
                )
    return policies


def is_remote(model: Model) -> bool:
    """Whether someone else serves the model, so that it cannot be trained."""
    return model.engine.function == "openai"


@dataclass(frozen=True, slots=True)
class Given:
    """A setting as given: its path in the block's schema, its scope ("policy", "training" or "")."""

    path: str
    scope: str
    setting: ast.Setting


def given_settings(cls: type, node: Node, path: str = "", scope: str = "") -> Iterator[Given]:
    """All settings that are given in a block and exist in the schema."""
    facts = facts_of(cls)
    for name, setting in node.settings.items():
        if name in facts and facts[name].type != "block":
            yield Given(f"{path}{name}", facts[name].scope or scope, setting)
    for name, block in node.blocks.items():
        if name in facts and facts[name].type == "block":
            yield from given_settings(BLOCKS[name], block, f"{path}{name}.", facts[name].scope or scope)


# Findings about one model


def check_model(model: Model, entity: Entity, context: Context) -> None:
    """Settings of a model that its engine or `sharing` leaves without effect, and training settings of a frozen one."""
    report = context.report
    node = entity.node
    engine = node.settings.get("engine")
    remote = is_remote(model)
    frozen = node.settings.get("frozen")
    for given in given_settings(Model, node):
        name, span = given.path, given.setting.name.span
        if remote and (name in ("weights", "sharing", "dtype") or name.startswith("lora.")):
            _not_honoured(name, span, model, engine, context)
        elif remote and name == "frozen" and context.values[id(given.setting)] is False:
            labels = [Label(engine.name.span, "its engine is remote")] if engine else []
            report.add("E0602", f"model `{model.name}` is remote and always frozen", span, labels=labels)
        elif name.startswith("lora.") and model.sharing != "adapter" and given.scope == "policy":
            sharing = node.settings.get("sharing")
            if entity.level(given.setting) <= (entity.level(sharing) if sharing else len(entity.chain)):
                labels = [Label(sharing.name.span, f"`sharing` is {model.sharing}")] if sharing else []
                help = Help("write `sharing = adapter`, or leave `lora` away")
                report.add("E0607", f"`{name}` needs `sharing = adapter`", span, labels=labels, help=help)
        elif given.scope in ("policy", "training") and (model.frozen or remote):
            cause = engine if remote else frozen
            if cause is not None and entity.level(given.setting) <= entity.level(cause):
                _frozen(f"model `{model.name}`", name, span, cause, context)
    _check_chat(Model, node, model, engine, context)


def _not_honoured(name: str, span: Span, model: Model, engine: ast.Setting | None, context: Context) -> None:
    labels = [Label(engine.name.span, f"the engine of `{model.name}`")] if engine else []
    message = f"the engine `{model.engine.function}` does not honour `{name}`"
    context.report.add("E0604", message, span, labels=labels, help=Help("remove it"))


def _check_chat(cls: type, node: Node, model: Model, engine: ast.Setting | None, context: Context) -> None:
    """A remote server has a chat template of its own."""
    if is_remote(model) and "chat" in node.blocks:
        for name in ("template", "enable_thinking"):
            if name in node.blocks["chat"].settings:
                span = node.blocks["chat"].settings[name].name.span
                _not_honoured(f"chat.{name}", span, model, engine, context)


def _frozen(what: str, name: str, span: Span, cause: ast.Setting, context: Context) -> None:
    remote = cause.name.name == "engine"
    labels = [Label(cause.name.span, "its engine is remote" if remote else "frozen here")]
    help = Help("remove it" if remote else f"remove it, or `{cause.name.name}`")
    context.report.add("E0602", f"{what} is frozen, so `{name}` means nothing", span, labels=labels, help=help)


# Findings about one agent


def check_agent(agent: Agent, entity: Entity, model: Model, model_entity: Entity, context: Context) -> None:
    """Settings of an agent that its policy or engine leaves without effect, and sampling that spoils training."""
    cause, level = _cause_of_freezing(entity, model, model_entity)
    explicit = entity.node.settings.get("frozen")
    if explicit is not None and context.values[id(explicit)] is False and cause is not None and cause is not explicit:
        labels = [Label(cause.name.span, f"model `{model.name}` is frozen here")]
        message = f"agent `{agent.name}` cannot be trained: its model is frozen"
        context.report.add("E0602", message, explicit.name.span, labels=labels)
    shared: list[Given] = []
    for given in given_settings(Agent, entity.node):
        if given.scope in ("policy", "training") and agent.frozen and cause is not None:
            if entity.level(given.setting) <= level:
                _frozen(f"agent `{agent.name}`", given.path, given.setting.name.span, cause, context)
        elif given.scope == "policy" and model.sharing == "full":
            shared.append(given)
        elif given.path in ("sampling.top_k", "sampling.min_p") and is_remote(model):
            engine = model_entity.node.settings.get("engine")
            _not_honoured(given.path, given.setting.name.span, model, engine, context)
    _check_chat(Agent, entity.node, model, model_entity.node.settings.get("engine"), context)
    for given in shared:
        _shared(agent, given, model, model_entity, context)
    if not agent.frozen:
        _check_sampling(agent, entity, context)


def _cause_of_freezing(entity: Entity, model: Model, model_entity: Entity) -> tuple[ast.Setting | None, int]:
    """The setting that freezes the agent, and the level of inheritance from which on training settings are pointless:
    what a role gives to frozen and trained agents alike is fine."""
    if is_remote(model) or model.frozen:
        cause = model_entity.node.settings.get("engine" if is_remote(model) else "frozen")
        chosen = entity.node.settings.get("model")
        return cause, entity.level(chosen) if chosen is not None else 0
    own = entity.node.settings.get("frozen")
    return own, entity.level(own) if own is not None else 0


def _shared(agent: Agent, given: Given, model: Model, model_entity: Entity, context: Context) -> None:
    sharing = model_entity.node.settings.get("sharing")
    place = sharing.name.span if sharing else model_entity.declaration.name.span
    shown = "" if sharing else " (the default)"
    labels = [Label(place, f"`sharing` is full{shown}: one set of weights for all its agents")]
    help = Help(f"set it on model `{model.name}`, or give each agent its own weights with `sharing = none`")
    message = (
        f"agent `{agent.name}` shares the policy of model `{model.name}` and cannot have `{given.path}` of its own"
    )
    context.report.add("E0601", message, given.setting.name.span, labels=labels, help=help)


def _check_sampling(agent: Agent, entity: Entity, context: Context) -> None:
    report, sampling = context.report, agent.sampling
    temperature = entity.node.at("sampling", "temperature")
    if sampling.temperature == 0 and temperature is not None:
        message = f"agent `{agent.name}` is trained, but at temperature 0 its answers do not differ"
        help = Help("set a temperature above 0, or `frozen = true`")
        report.add("E0606", message, temperature.name.span, help=help)
    for name, off in (("top_p", 1.0), ("top_k", 0), ("min_p", 0.0)):
        setting = entity.node.at("sampling", name)
        if setting is not None and getattr(sampling, name) != off:
            notes = ["tokens outside of the truncated distribution get no probability; the loss assumes the whole one"]
            edits = (Edit(setting.value.span, f"{off:g}"),)
            help = Help(f"leave it at {off:g} in training; `eval` has a top_p of its own", edits)
            message = f"`{name}` truncates what the trained agent `{agent.name}` samples"
            report.add("W0601", message, setting.name.span, notes=notes, help=help)


# Findings about the training loop


def check_train(train: Train, node: Node, task: Node, context: Context) -> None:
    """Settings that the algorithm does not honour or that nothing would come of, and groups of one."""
    signature = FUNCTIONS.get(("algorithm", train.algorithm.function))
    honours = signature.honours if signature is not None else ()
    group = node.settings.get("group_size")
    if train.group_size == 1 and group is not None:
        message = f"`{train.algorithm.function}` compares the members of a group: a group of one teaches nothing"
        context.report.add("E0605", message, group.name.span, help=Help("set `group_size` to 2 or more"))
    normalize = node.settings.get("normalize")
    if normalize is not None and "deviation" not in honours:
        named = train.normalize
        if named.function == "agent_std" or (named.function == "stats" and named.args["std"] != "none"):
            message = f"`{train.algorithm.function}` does not divide by a deviation, `normalize` names one"
            help = Help("choose by the mean: `agent`, `trajectory`, `turn`, or `stats(mean = …, std = none)`")
            context.report.add("E0603", message, normalize.value.span, help=help)
    algorithm = node.settings.get("algorithm")
    if (
        algorithm is not None
        and isinstance(algorithm.value, ast.Call)
        and train.algorithm.args.get("overlong_buffer") == 0
    ):
        for argument in algorithm.value.arguments:
            if argument.name is not None and argument.name.name == "overlong_penalty":
                help = Help(
                    "set `overlong_buffer` to the number of tokens in which it grows, or leave `overlong_penalty` away"
                )
                context.report.add("E0607", "`overlong_penalty` needs an `overlong_buffer`", argument.span, help=help)
    evaluated = node.settings.get("eval_every")
    if evaluated is not None and train.eval_every and "test" not in {*task.settings, *task.blocks}:
        help = Help("set `task.test`, or leave `eval_every` away")
        context.report.add("E0607", "`eval_every` needs questions to evaluate on", evaluated.name.span, help=help)


def check_aggregate(train: Train, algorithm: Span | None, entities: Mapping[str, Entity], context: Context) -> None:
    """`aggregate` is the algorithm's own where it does not honour the setting."""
    signature = FUNCTIONS.get(("algorithm", train.algorithm.function))
    if signature is None or "aggregate" in signature.honours:
        return
    better = [name for (kind, name), other in FUNCTIONS.items() if kind == "algorithm" and "aggregate" in other.honours]
    reported: set[Span] = set()
    for entity in entities.values():
        setting = entity.node.settings.get("aggregate")
        if setting is not None and setting.name.span not in reported:
            reported.add(setting.name.span)
            labels = [Label(algorithm, "chosen here")] if algorithm else []
            message = f"`{signature.name}` has an aggregation of its own and does not honour `aggregate`"
            help = Help(f"remove it, or choose one of {listed(better)}")
            context.report.add("E0603", message, setting.name.span, labels=labels, help=help)
