"""The types of expressions, arguments and settings' values.

Small on purpose: int, float, bool, string (with its options where a `choice` made it), any, none, and lists. Every
value may also be `none`, so `optional` matters for what is written as an argument or a setting only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `choices` are the only strings that a value can be (empty: any string); `item` is that of a list."""

    kind: str  # int, float, bool, string, any, none, list
    item: Type | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        if self.kind == "list":
            return f"list of {self.item}" if self.item and self.item.kind != "any" else "list"
        if self.choices:
            return "one of " + ", ".join(f'"{choice}"' for choice in self.choices)
        return self.kind


INT = Type("int")
FLOAT = Type("float")
BOOL = Type("bool")
STRING = Type("string")
ANY = Type("any")
NONE = Type("none")


def list_of(item: Type) -> Type:
    """The type of a list of such items."""
    return Type("list", item)


def is_number(type: Type) -> bool:
    """Whether arithmetic may be done with it."""
    return type.kind in ("int", "float", "any")


def type_of(value: Any) -> Type:
    """The type of a constant."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, str):
        return STRING
    return list_of(join([type_of(item) for item in value]))


def join(types: list[Type]) -> Type:
    """The type that values of all these types have in common: `any` where they have none."""
    kinds = {type.kind for type in types} - {"none"}
    if kinds == {"int", "float"}:
        return FLOAT
    if len(kinds) != 1:
        return ANY
    first = next(type for type in types if type.kind != "none")
    return first if all(type in (first, NONE) for type in types) else Type(first.kind, ANY if first.item else None)


def declared(text: str) -> Type:
    """The type that a signature or the schema names: `int`, `list:string`, `float?`; paths and enumerated values are
    strings."""
    if text.endswith("?"):
        return replace(declared(text[:-1]), optional=True)
    if text.startswith("list:"):
        return list_of(declared(text[5:]))
    return Type({"path": "string", "package_path": "string", "data": "string", "enum": "string"}.get(text, text))


def fits(actual: Type, wanted: Type) -> bool:
    """Whether a value of type `actual` may stand where `wanted` is asked for (an int is a float too)."""
    if "any" in (actual.kind, wanted.kind):
        return True
    if actual.kind == "none":
        return wanted.optional
    if actual.kind == "list" and wanted.kind == "list":
        return fits(actual.item or ANY, wanted.item or ANY)
    return actual.kind == wanted.kind or (actual.kind == "int" and wanted.kind == "float")


def alike(left: Type, right: Type) -> bool:
    """Whether values of the two types can be equal: same kind, numbers among themselves, anything with `none`."""
    if {"any", "none"} & {left.kind, right.kind}:
        return True
    if left.kind == "list" and right.kind == "list":
        return alike(left.item or ANY, right.item or ANY)
    return left.kind == right.kind or {left.kind, right.kind} == {"int", "float"}
