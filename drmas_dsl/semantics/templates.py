"""Jinja2 templates as trees whose nodes know their exact places.

Jinja keeps line numbers only. The parser here feeds it tokens whose "line" is their offset in the text, so that every
node's `lineno` is an offset. Jinja2 is imported with this module, which `prompts` imports only when there are prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.lexer import TokenStream
from jinja2.sandbox import SandboxedEnvironment


@dataclass(frozen=True, slots=True)
class TemplateError(Exception):
    """Bad syntax at [start, end) of the text."""

    message: str
    start: int
    end: int


class _Environment(SandboxedEnvironment):
    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        try:
            tokens = list(_with_offsets(source, self.lexer.tokeniter(source, name, filename, state)))
        except TemplateSyntaxError as error:
            raise _lexical(source, error) from None
        return TokenStream(self.lexer.wrap(iter(tokens), name, filename), name, filename)


_ENVIRONMENT = _Environment()
GLOBALS = frozenset(_ENVIRONMENT.globals)
FILTERS = tuple(_ENVIRONMENT.filters)
TESTS = tuple(_ENVIRONMENT.tests)


def _with_offsets(text: str, tokens: Any) -> Iterator[tuple[int, str, str]]:
    """The lexer's tokens with offsets for lines. What the lexer leaves out (stripped white space) lies between tokens."""
    position = 0
    for _, kind, value in tokens:
        position = max(text.find(value, position), position)
        yield position, kind, value
        position += len(value)


@lru_cache(maxsize=4096)  # asked for once by the checks and once by the budget
def parse_template(text: str) -> nodes.Template:
    """The tree of a template, with offsets for line numbers.

    Raises:
        TemplateError: with the place of the mistake; an unclosed block's is its opening tag.
    """
    try:
        return _ENVIRONMENT.parse(text)
    except TemplateSyntaxError as error:
        tokens = list(_with_offsets(text, _ENVIRONMENT.lexer.tokeniter(text, None)))
        raise _syntactic(text, error, tokens) from None
    except RecursionError:
        raise TemplateError("the template is nested too deeply", 0, len(text)) from None


def _lexical(text: str, error: TemplateSyntaxError) -> TemplateError:
    """An error of the lexer; its line is a true one."""
    message = error.message or "bad syntax"
    if "Missing end of comment" in message:
        start = _unclosed(text, "{#", "#}")
        return TemplateError("this comment is not closed with `#}`", start, start + 2)
    if "Missing end of raw" in message:
        found = list(re.finditer(r"\{%[-+]?\s*raw\s*[-+]?%\}", text))[-1]
        return TemplateError("this `{% raw %}` is not closed with `{% endraw %}`", found.start(), found.end())
    lines = text.split("\n")
    number = min(error.lineno, len(lines))
    start = sum(len(line) + 1 for line in lines[: number - 1])
    line = lines[number - 1]
    character = re.search(r"unexpected char .+ at (\d+)", message)
    if character:
        at = int(character.group(1))
        what = (
            "this string is not closed" if text[at] in "\"'" else f"`{text[at]}` has no meaning in a template's braces"
        )
        return TemplateError(what, at, at + 1)
    wrong = re.search(r"unexpected '(.+?)'", message)
    at = line.find(wrong.group(1)) if wrong else -1
    begin = start + max(at, len(line) - len(line.lstrip()) if at < 0 else at)
    return TemplateError(_lowered(message), begin, begin + (len(wrong.group(1)) if wrong and at >= 0 else 1))


def _unclosed(text: str, opening: str, closing: str) -> int:
    position = 0
    while True:
        start = text.find(opening, position)
        end = text.find(closing, start + 2)
        if start < 0 or end < 0:
            return max(start, 0)
        position = end + 2


_PAIRED = ("for", "if", "macro", "call", "filter", "with", "autoescape", "block")


def _syntactic(text: str, error: TemplateSyntaxError, tokens: list[tuple[int, str, str]]) -> TemplateError:
    """An error of the parser; its line is an offset."""
    message = error.message or "bad syntax"
    start = min(error.lineno, len(text))
    at = next(((offset, value) for offset, _, value in tokens if offset >= start and value.strip()), (start, " "))
    wrong_end = re.match(r"Encountered unknown tag 'end(\w+)'", message)
    if "end of template" in message or (wrong_end and wrong_end.group(1) in (*_PAIRED, "set")):
        opened = _open_blocks([token for token in tokens if "end of template" in message or token[0] < start])
        if opened:
            name, begin, end = opened[-1]
            return TemplateError(f"`{{% {name} %}}` is not closed with `{{% end{name} %}}`", begin, end)
    begin, end = at[0], at[0] + len(at[1])
    opener = _opener(text, start)
    if opener is not None and "end of template" in message:
        closing = "}}" if text[opener + 1] == "{" else "%}"
        return TemplateError(f"this `{text[opener : opener + 2]}` is not closed with `{closing}`", opener, opener + 2)
    if opener is not None and (begin >= len(text) or at[1] in ("}}", "%}")):
        begin, end = opener, min(end, len(text))
    return TemplateError(_lowered(message), begin, max(end, begin + 1))


def _opener(text: str, position: int) -> int | None:
    """Where the braces around a position open."""
    found = max(text.rfind("{{", 0, position + 1), text.rfind("{%", 0, position + 1))
    return found if found >= 0 else None


def _open_blocks(tokens: list[tuple[int, str, str]]) -> list[tuple[str, int, int]]:
    """The block tags that are open at the end, with the places of their opening tags."""
    opened: list[tuple[str, int, int]] = []
    start = 0
    words: list[str] = []
    inside = False
    for offset, kind, value in tokens:
        if kind == "block_begin":
            inside, start, words = True, offset, []
        elif kind == "block_end" and inside:
            inside = False
            name = words[0] if words else ""
            if name in _PAIRED or (name == "set" and "=" not in words):
                opened.append((name, start, offset + len(value)))
            elif name.startswith("end") and opened:
                opened.pop()
        elif inside and kind != "whitespace":
            words.append(value)
    return opened


def _lowered(message: str) -> str:
    message = message.partition(". ")[0].rstrip(".")
    return message[:1].lower() + message[1:]
