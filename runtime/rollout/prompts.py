"""Prompts: a Jinja2 template and the state of a trajectory to the token ids that the engine consumes.

Templates run in a sandbox, with Jinja2's own white-space rules. A name that does not exist is an error; one that exists
and is not bound yet is none, and none renders as nothing. A prompt that does not fit the context loses its history turn by
turn from the oldest, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, pass_environment
from jinja2.filters import make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Chat
from runtime.records import ToolCall, Turn
from runtime.rollout.failures import Failure, described


def _shown(value: Any) -> Any:
    return "" if value is None else value


@pass_environment
def _join(environment: Environment, value: Any, d: str = "", attribute: str | None = None) -> str:
    """Jinja2's `join`, for which none is nothing too."""
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    return d.join(str(_shown(item)) for item in items)


class Names:
    """Values that a template reads as attributes: `task.question`. It has no methods, which a column's name could hit."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __repr__(self) -> str:
        return repr(dict(self._values))

    def lacks(self, name: str) -> str:
        """What to say where there is no such name."""
        return f"there is no {name!r}, only {', '.join(map(repr, self._values)) or 'nothing'}"


class _Undefined(StrictUndefined):
    """What a template reads and is not there: an error that names what is."""

    @property
    def _undefined_message(self) -> str:
        if isinstance(self._undefined_obj, Names) and self._undefined_name is not None:
            return self._undefined_obj.lacks(self._undefined_name)
        return super()._undefined_message


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=_Undefined, finalize=_shown)
_ENVIRONMENT.filters["join"] = _join


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt, its token ids under the chat template, and how many turns of history it had to drop."""

    text: str
    ids: tuple[int, ...]
    dropped_history: int


@lru_cache(maxsize=1024)
def template(source: str) -> Template:
    """The compiled template.

    Raises:
        UserError: it is not Jinja2.
    """
    try:
        return _ENVIRONMENT.from_string(source)
    except TemplateError as error:
        raise UserError(f"a prompt is not valid Jinja2: {error}") from error


def history_of(events: Sequence[Turn | ToolCall], outputs: Sequence[str]) -> list[Names]:
    """The events as `history` shows them. Each has `agent` or `tool` (the other is none), `text`, and all `outputs` of the
    system (none where it is another agent's)."""
    unbound = dict.fromkeys(outputs)
    return [
        Names({**unbound, **event.outputs, "agent": event.agent, "tool": None, "text": event.text})
        if isinstance(event, Turn)
        else Names({**unbound, "agent": None, "tool": event.tool, "text": event.result})
        for event in events
    ]


def fitted(
    prompt: Template,
    names: Mapping[str, Any],
    events: Sequence[Turn | ToolCall],
    outputs: Sequence[str],
    encode: Callable[[str], tuple[int, ...]],
    room: int,
) -> Prompt:
    """The prompt with as much history as fits into `room` tokens. A turn goes with the tool results that
    follow it.

    Raises:
        Failure: the template fails, or does not fit without any history.
    """
    history = history_of(events, outputs)

    def dropping(start: int) -> tuple[str, tuple[int, ...]]:
        try:
            text = prompt.render(names, history=history[start:])
        except Exception as error:  # whatever a template's expressions raise
            raise Failure(f"the prompt does not render: {described(error)}") from error
        return text, encode(text)

    text, ids = dropping(0)
    if len(ids) <= room:
        return Prompt(text, ids, 0)
    starts = [place for place, event in enumerate(events) if isinstance(event, Turn)][1:]
    starts = [0, *starts, len(events)] if events else [0]
    dropped = bisect_left(range(len(starts)), True, key=lambda turns: len(dropping(starts[turns])[1]) <= room)
    if dropped == len(starts):
        shortest = len(dropping(starts[-1])[1])
        raise Failure(f"the prompt has {shortest} tokens without any history, and only {room} fit beside max_tokens")
    text, ids = dropping(starts[dropped])
    return Prompt(text, ids, dropped)


def encode(prompt: str, chat: Chat, tokenizer: Any) -> tuple[int, ...]:
    """Token ids of the prompt as one user message under the chat template, up to where the response begins. Without a
    template: of the text itself, behind the system message where there is one.

    Raises:
        UserError: the chat template does not take the messages.
    """
    if not (chat.template or tokenizer.chat_template):
        return tuple(tokenizer(prompt if chat.system is None else f"{chat.system}\n\n{prompt}").input_ids)
    system = [] if chat.system is None else [{"role": "system", "content": chat.system}]
    options = {} if chat.enable_thinking is None else {"enable_thinking": chat.enable_thinking}
    try:
        text = tokenizer.apply_chat_template(
            [*system, {"role": "user", "content": prompt}],
            chat_template=chat.template,
            tokenize=False,
            add_generation_prompt=True,
            **options,
        )
    except TemplateError as error:
        raise UserError(f"the chat template fails: {error}", "see chat.system and chat.template") from error
    return tuple(tokenizer(text, add_special_tokens=False).input_ids)
