"""How long prompts can get: fixed text, and history on the longest path, against the model's context.

There is no tokenizer here: a token is taken for three bytes of text, and every response for its `max_tokens`. Columns of the
question and results of tools have no known length and are left out (and named).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import nodes

from drmas_dsl.diagnostics.diagnostic import Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.history import Length, longest_histories
from drmas_dsl.graph.lowering import Lowered
from drmas_dsl.graph.settings import Agent, Call, System
from drmas_dsl.graph.walks import Walk
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.semantics.templates import TemplateError, parse_template

BYTES_PER_TOKEN = 3
TINY_CONTEXT = 4096  # of `weights = tiny(…)` where the model names none


@dataclass(frozen=True, slots=True)
class Budget:
    """The longest prompt of an agent in tokens. `fixed`: text that every prompt has; `text`: the most that the template
    itself can give; `reads`: outputs of agents outside of the history; `history`: on the longest path; `unknown`: what
    the prompt reads and nobody can know the length of. `context` is None where it is not known."""

    agent: str
    fixed: int
    text: int
    reads: int
    history: int
    turns: int
    max_tokens: int
    context: int | None
    unknown: tuple[str, ...]

    @property
    def total(self) -> int:
        """The longest prompt and response together."""
        return self.text + self.reads + self.history + self.max_tokens


def budgets(lowered: Lowered, walk: Walk) -> tuple[Budget, ...]:
    """The budget of every agent that the flow calls and whose model is known, in the order of the declarations."""
    system: System = lowered.graph.graph["system"]
    histories = longest_histories(lowered, walk)
    called = (agent for name, agent in system.agents.items() if name in histories)
    return tuple(_budget(agent, system, histories[agent.name]) for agent in called if agent.model in system.models)


def check_budget(checked: Checked, found: Sequence[Budget], report: Report) -> None:
    """Report agents whose prompt cannot fit, and those whose history may not."""
    for budget in found:
        if budget.context is None:
            continue
        agent = checked.system.agents[budget.agent]
        span = next(
            (
                checked.places[path]
                for path in (f"{budget.agent}.sampling.max_tokens", f"{budget.agent}.prompt", budget.agent)
                if path in checked.places
            ),
            None,
        )
        if span is None:
            continue
        place = checked.places.get(f"{agent.model}.context")
        labels = [Label(place, "the context")] if place is not None else []
        least = budget.fixed + budget.max_tokens
        if least > budget.context:
            message = f"the prompt of `{budget.agent}` cannot fit the context of `{agent.model}`"
            note = f"about {budget.fixed} tokens of fixed text and {budget.max_tokens} of response are more than {budget.context}"
            help = Help("raise the model's `context`, or lower `sampling.max_tokens`")
            report.add("E0510", message, span, labels=labels, notes=(note,), help=help)
        elif budget.history and budget.total > budget.context:
            message = f"a long history overflows the context of `{budget.agent}`"
            turns = "1 turn" if budget.turns == 1 else f"{budget.turns} turns"
            note = (
                f"the longest path gives {turns} of about {budget.history} tokens; with the text and the response that is "
                f"{budget.total} of {budget.context}"
            )
            help = Help("raise `context`, lower `max_tokens`, or live with it: the oldest turns are left out then")
            report.add(
                "W0504", message, checked.places.get(budget.agent, span), labels=labels, notes=(note,), help=help
            )


def _budget(agent: Agent, system: System, history: Length) -> Budget:
    model = system.models[agent.model]
    context = model.context
    if context is None and isinstance(model.weights, Call) and model.weights.function == "tiny":
        context = TINY_CONTEXT
    message = agent.chat.system or model.chat.system or ""
    try:
        measure = _Measure(agent, system)
        low, high = measure.block(parse_template(agent.prompt).body)
    except TemplateError:  # reported where prompts are checked
        measure, low, high = _Measure(agent, system), 0, 0
    fixed = len(message.encode())
    turns = _tokens(measure.per_turn * history.turns) + (history.tokens if measure.shows_text else 0)
    return Budget(
        agent.name,
        _tokens(fixed + low),
        _tokens(fixed + high),
        measure.reads,
        turns if measure.history else 0,
        history.turns if measure.history else 0,
        agent.sampling.max_tokens,
        context,
        tuple(dict.fromkeys(measure.unknown)),
    )


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


class _Measure:
    """Reads a template: the least and the most bytes that its own text gives, and what else it shows."""

    def __init__(self, agent: Agent, system: System) -> None:
        self.agent = agent
        self.system = system
        self.history = False
        self.shows_text = False
        self.per_turn = 0
        self.reads = 0
        self.unknown: list[str] = []

    def block(self, body: list[nodes.Node]) -> tuple[int, int]:
        """The least and the most bytes of some nodes in a row."""
        sizes = [self.node(node) for node in body]
        return sum(low for low, _ in sizes), sum(high for _, high in sizes)

    def node(self, node: nodes.Node) -> tuple[int, int]:
        match node:
            case nodes.TemplateData(data=data):
                size = len(data.encode())
                return size, size
            case nodes.Output(nodes=inner):
                return self.block(list(inner))
            case nodes.If(body=body, elif_=others, else_=orelse):
                arms = [self.block(body), *(self.block(other.body) for other in others), self.block(orelse)]
                return min(low for low, _ in arms), max(high for _, high in arms)
            case nodes.For(iter=iterated, body=body):
                return self.loop(iterated, body)
            case nodes.Expr():
                self.shown(node)
                return (size := len(self.agent.role.encode()) if _is_role(node) else 0), size
        return self.block([child for child in node.iter_child_nodes() if not isinstance(child, nodes.Expr)])

    def loop(self, iterated: nodes.Node, body: list[nodes.Node]) -> tuple[int, int]:
        """A `for`: over the history it counts per turn, over anything else once."""
        if not any(name.name == "history" for name in _all(iterated, nodes.Name)):
            return 0, self.block(body)[1]
        self.history = True
        self.per_turn += self.block(body)[1]
        self.shows_text = True
        return 0, 0

    def shown(self, node: nodes.Node) -> None:
        """What an output of the template reads."""
        for read in _all(node, nodes.Getattr):
            owner = read.node.name if isinstance(read.node, nodes.Name) else ""
            if owner in self.system.agents:
                self.reads += self.system.agents[owner].sampling.max_tokens
            elif owner == "task":
                self.unknown.append(f"task.{read.attr}")
        if isinstance(node, nodes.Name) and node.name not in ("role", "history", "task", "loop"):
            self.unknown.append(node.name)


def _is_role(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == "role"


def _all(node: nodes.Node, kind: type) -> list:  # type: ignore[type-arg]
    return [*([node] if isinstance(node, kind) else []), *node.find_all(kind)]
