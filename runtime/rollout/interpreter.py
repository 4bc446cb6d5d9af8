"""Walks the graph for one trajectory: what each kind of node does, which edge comes next, and the reward at the end.

The meaning of nodes and edges stands in `drmas_dsl.graph.execution`. Who generates, and when, is behind `Generator`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol, TypeVar

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Expression
from runtime.engines.protocol import Completion, Request
from runtime.records import ToolCall, Trajectory, Turn
from runtime.rollout.clock import Clock
from runtime.rollout.expressions import evaluate
from runtime.rollout.failures import Failure, described
from runtime.rollout.program import Node, Program
from runtime.rollout.prompts import fitted
from runtime.rollout.state import State

T = TypeVar("T")

# For tools and rewards that block; most of their time they wait for a server or for the grader's processes.
_threads = ThreadPoolExecutor(32, "rollout")


class Generator(Protocol):
    """Where walkers get their completions. A walker is a coroutine that walks; a trajectory begins as one, which is
    counted already, and has more of them between a fork and its join."""

    async def generate(self, model: str, request: Request) -> Completion:
        """The completion of one request to a model."""
        ...

    def enter(self, walkers: int) -> None:
        """So many more walkers begin."""
        ...

    def leave(self) -> None:
        """One walker has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Walk:
    """What belongs to one trajectory all the way. `place` is the question's in the step, `index` its own in the group."""

    program: Program
    row: Mapping[str, Any]
    step: int
    question: str
    place: int
    index: int
    seed: int
    generator: Generator
    clock: Clock

    @property
    def id(self) -> str:
        """The trajectory's name, unique in its step."""
        return f"{self.question}/{self.index}"


async def walk(trip: Walk) -> Trajectory:
    """Walk to the end and score. A trajectory that cannot go on keeps what it has recorded, and the reason in `failed`.

    Raises:
        UserError: something that no trajectory can get over.
    """
    begin = perf_counter()
    program = trip.program
    state = State(program, trip.row, program.nodes[program.start])
    record = Trajectory(trip.step, trip.question, trip.id, trip.index, trip.row)
    try:
        async with trip.clock.limit:
            try:
                await _run(trip, state, program.start, None)
            finally:
                trip.generator.leave()
            record = await _scored(record, state)
    except TimeoutError:  # of ours: those of engines and tools are failures by now
        record = replace(record, failed=f"it took longer than {trip.clock.seconds:g} s (`train.trajectory_timeout`)")
    except Failure as failure:
        record = replace(record, failed=str(failure))
    return replace(record, events=_numbered(state.events), result=state.returned, seconds=perf_counter() - begin)


def seed_of(seed: int, step: int, question: str, index: int, turn: tuple[int, ...]) -> int:
    """The sampling seed of a turn, 63 bits, from the run's seed and the turn's address."""
    key = repr((seed, step, question, index, turn)).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) >> 1


async def _run(trip: Walk, state: State, name: str, stop: str | None) -> None:
    """Walk from node `name` to a return, or to the join where a branch stops."""
    previous: Node | None = None
    while name != stop:
        state.node = node = trip.program.nodes[name]
        _count(state, node, previous)
        match node.kind:
            case "call":
                await _call(trip, state)
            case "tool":
                await _use_tool(trip, state)
            case "assign":
                state.variables[node.data["bind"]] = await _value(state, node.data["value"])
            case "fork":
                await _fork(trip, state)
                previous, name = node, node.data["join"]
                continue
            case "return":
                if stop is not None:
                    raise Failure(f"the graph returns inside of a branch, at node {name}")
                state.returned = await _value(state, node.data["value"])
                return
        previous, name = node, await _next(state)


def _count(state: State, node: Node, previous: Node | None) -> None:
    """Count the visit and, at a loop's head, the iteration; a cycle that is no loop would go round for ever."""
    state.visits[node.name] += 1
    inside = previous is not None and (node.name in previous.loops or node is previous)
    if node.kind == "loop":
        state.iterations[node.name] = state.iterations[node.name] + 1 if inside else 1
    if state.visits[node.name] > node.visits:
        raise Failure(
            f"the graph does not end: node {node.name} came up more than {node.visits} times, as its loops allow"
        )


async def _next(state: State) -> str:
    node = state.node
    for target, condition in node.edges:
        if condition is None:
            return target
        if condition["kind"] == "more":
            if state.iterations[node.name] <= node.data["max"]:
                return target
        elif await _value(state, condition):
            return target
    raise Failure(f"the graph has no edge to take from node {node.name}")


async def _fork(trip: Walk, state: State) -> None:
    """Run the branches at once, and let all of them end before the first failure counts."""
    node, address = state.node, state.next_turn()
    if node.name in state.forks:
        raise Failure(f"the graph does not end: a branch of node {node.name} comes back to it")
    copies = node.data["copies"]
    targets = [target for target, _ in node.edges]
    targets = targets * copies if copies else targets
    branches = [state.branch(address, number) for number in range(len(targets))]
    left = len(branches)

    async def run(branch: State, target: str) -> None:
        nonlocal left
        try:
            await _run(trip, branch, target, node.data["join"])
        finally:
            left -= 1
            if left:  # the last one's place is the parent's from here on
                trip.generator.leave()
                trip.clock.move(-1)

    trip.generator.enter(left - 1)
    trip.clock.move(left - 1)
    ends = await asyncio.gather(*map(run, branches, targets), return_exceptions=True)
    state.join(branches, bool(copies))
    for end in ends:
        if end is not None:
            raise end


async def _call(trip: Walk, state: State) -> None:
    speaker = trip.program.speakers[state.node.data["agent"]]
    agent, address = speaker.agent, state.next_turn()
    names = state.names(agent.role)
    try:
        prompt = fitted(speaker.template, names, state.events, trip.program.outputs, speaker.encode, speaker.room)
    except Failure as failure:
        raise Failure(f"{agent.name}: {failure}") from failure
    request = Request(
        agent.policy,
        prompt.ids,
        speaker.sampling,
        seed_of(trip.seed, trip.step, trip.question, trip.index, address),
        (trip.place, trip.index, *address),
    )
    begin = perf_counter()
    trip.clock.move(-1)
    try:
        completion = await _guarded(agent.name, trip.generator.generate(agent.model, request))
    finally:
        trip.clock.move(1)
    text = speaker.decode(completion.response_ids)
    outputs, valid, defaulted = speaker.read(text)
    turn = Turn(
        step=trip.step,
        question=trip.question,
        trajectory=trip.id,
        agent=agent.name,
        policy=agent.policy,
        index=address[-1],  # its place where there was no fork before; see `_numbered`
        prompt_ids=prompt.ids,
        response_ids=completion.response_ids,
        logprobs=completion.logprobs,
        weights_version=completion.weights_version,
        temperature=speaker.sampling.temperature,
        prompt=prompt.text,
        text=text,
        outputs=outputs,
        valid=valid,
        defaulted=defaulted,
        truncated=completion.finish == "length",
        dropped_history=prompt.dropped_history,
        seconds=perf_counter() - begin,
        usage=completion.usage,
    )
    state.events.append(turn)
    state.latest[agent.name] = turn


async def _use_tool(trip: Walk, state: State) -> None:
    """Call a tool and bind its result; one whose argument turns out none is not called and gives none (a constant none
    is the default of a parameter)."""
    name, bind, given = (state.node.data[key] for key in ("tool", "bind", "args"))
    args = {key: await _value(state, arg) for key, arg in given.items()}
    if any(args[key] is None for key in given if given[key]["kind"] != "const"):
        state.variables[bind] = None
        return
    function, settings = trip.program.tools[name]
    begin = perf_counter()
    if inspect.iscoroutinefunction(function):
        result = await _guarded(name, function(**args, **settings))
    else:
        result = await _guarded(name, _in_thread(lambda: function(**args, **settings)))
    state.events.append(ToolCall(name, args, result, perf_counter() - begin))
    state.variables[bind] = result


async def _value(state: State, expression: Expression) -> Any:
    """The value of an expression where the state stands."""
    program = state.program
    try:
        if program.is_slow(expression):
            return await _in_thread(lambda: evaluate(expression, state, program.functions))
        return evaluate(expression, state, program.functions)
    except UserError:
        raise
    except Exception as error:
        raise Failure(f"an expression at node {state.node.name} fails: {described(error)}") from error


async def _scored(record: Trajectory, state: State) -> Trajectory:
    """The record with the rewards that the task gives, and whether it counts as solved."""
    task = state.program.system.task
    assert task.reward is not None  # the compiler insists
    reward = _number("the reward", await _value(state, task.reward))
    own = {
        agent: _number(f"the reward of {agent}", await _value(state, expression))
        for agent, expression in task.agent_rewards.items()
    }
    success = reward >= 1 if task.success is None else bool(await _value(state, task.success))
    return replace(record, reward=reward, agent_rewards=own, success=success)


def _number(what: str, value: Any) -> float:
    """A reward as a finite number; none is 0."""
    if value is None:
        return 0.0
    if not isinstance(value, (bool, int, float)) or not math.isfinite(value):
        raise Failure(f"{what} is {value!r}, which is no finite number")
    return float(value)


def _numbered(events: list[Turn | ToolCall]) -> tuple[Turn | ToolCall, ...]:
    """The events with their turns numbered in order, now that the branches are in order."""
    turns = [event for event in events if isinstance(event, Turn)]
    numbered = iter(
        [turn if turn.index == number else replace(turn, index=number) for number, turn in enumerate(turns)]
    )
    return tuple(next(numbered) if isinstance(event, Turn) else event for event in events)


async def _guarded(who: str, awaitable: Awaitable[T]) -> T:
    """What goes wrong with an engine or a tool fails this trajectory only, unless the user must act."""
    try:
        return await awaitable
    except UserError:
        raise
    except Exception as error:
        raise Failure(f"{who}: {described(error)}") from error


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, function)
