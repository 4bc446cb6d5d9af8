"""What may stand at a place, in words: from the terminals that the parser accepts there to the text of a message."""

from __future__ import annotations

from collections.abc import Set

from drmas_dsl.syntax.lexer import END, KEYWORDS, SIGNS, Token

_OPERATORS = frozenset("OR AND EQ NE LE LT GE GT PLUS MINUS STAR SLASH PERCENT DOT LPAREN".split())
_VALUE = frozenset("NUMBER TEXT TEXT_BLOCK TRUE FALSE NONE MINUS LPAREN LBRACKET".split())
_DECLARATION = frozenset("SYSTEM USE PARAM MODEL ROLE AGENT TOOL FLOW TASK TRAIN EVAL RESOURCES".split())
_STATEMENT = frozenset("IF LOOP PARALLEL BREAK CONTINUE RETURN".split())
_KEY = (KEYWORDS | {"NAME"}) - {"AND", "OR", "NOT", "TRUE", "FALSE", "NONE"}
_NAME = frozenset(("NAME", "OUTPUT", "POOL"))


def sign(terminal: str) -> str:
    """How a terminal is written: its sign, or the keyword."""
    return SIGNS.get(terminal) or terminal.lower()


def found(token: Token, text: str) -> str:
    """A token, for "found …"."""
    if token.type == END:
        return "the end of the file"
    if token.type in ("TEXT", "TEXT_BLOCK"):
        return "a string"
    written = text[token.start : min(token.end, token.start + 40)]
    return f"`{written}`" if token.end - token.start <= 40 else f"`{written}…`"


def expected(accepted: Set[str]) -> str:
    """The accepted terminals for "expected …", gathered into what they stand for."""
    words: list[str] = []
    left = set(accepted)

    def gather(group: Set[str], word: str, also: Set[str] = frozenset()) -> None:
        if group <= left:
            left.difference_update(group, also)
            words.append(word)

    gather(_VALUE | _NAME, "a value", _KEY | {"NOT"})
    if not words and left >= _KEY:
        gather(_KEY, "a setting" if "RBRACE" in left else "a name", {"COMMA", "SEMICOLON"})
    gather(_STATEMENT | {"NAME"}, "a statement", _NAME | {"LBRACE", "SEMICOLON"})
    gather(_DECLARATION, "a declaration (`agent`, `model`, `flow`, …)")
    gather(frozenset(("TEXT", "TEXT_BLOCK")), "a string")
    gather(_NAME, "a name")
    operators = left & _OPERATORS
    rest = left - operators
    words += sorted(_written(terminal) for terminal in rest if terminal != END)
    if END in rest and not words:
        words.append("the end of the file" if not operators else "the end")
    if operators == {"LPAREN"}:
        words.append("`(`")
    elif operators and not words:
        words.append("an operator")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _written(terminal: str) -> str:
    return f"`{sign(terminal)}`"
