"""The reference pages, made from the tables: `python -m drmas_dsl.cli.reference [FOLDER]` writes `settings.md` and `codes.md`.

The same tables serve the checker and `drmasc explain`, so that none of them can say what another does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from drmas_dsl.diagnostics.codes import CODES, Code
from drmas_dsl.graph.settings import BLOCKS, Agent, Call, Facts
from drmas_dsl.semantics.functions import FUNCTIONS, REQUIRED, Parameter, Signature

EXPLANATIONS = Path(__file__).parents[1] / "diagnostics" / "explanations"
DOCS = Path(__file__).parents[2] / "docs"
_HOMES = ("model", "agent", "task", "train", "eval", "pool")  # blocks that are declarations; the others stand in them
_GROUPS = {
    "E01": "Syntax", "E02": "Names", "E03": "Types and settings", "E04": "Prompts", "E05": "Flow", "E06": "Training",
    "E07": "Files", "W": "Warnings",
}  # fmt: skip


def explanation(code: str) -> str:
    """The text of `explanations/CODE.md`."""
    return (EXPLANATIONS / f"{code}.md").read_text(encoding="utf-8")


def facts_of(block: str) -> dict[str, tuple[Facts, Field[Any]]]:
    """The settings of a block that a user may write, by name."""
    return {
        field.name: (facts, field) for field in fields(BLOCKS[block]) if not (facts := field.metadata["facts"]).computed
    }


def settings_by_path() -> dict[str, tuple[Facts, Field[Any]]]:
    """Every setting by its block and name: `sampling.temperature`, `train.group_size`. A role has those of an agent."""
    return {
        f"{block}.{name}": entry
        for block in BLOCKS
        if block != "role"
        for name, entry in facts_of(block).items()
        if entry[0].type != "block"
    }


def setting_text(path: str, entry: tuple[Facts, Field[Any]]) -> str:
    """What `drmasc explain` prints of one setting."""
    facts, field = entry
    block = path.rpartition(".")[0]
    rows = {
        "type": type_text(facts),
        "range": range_text(facts),
        "unit": facts.unit,
        "default": default_text(facts, field),
        "stands in": home_text(block),
        "note": scope_text(path, facts),
    }
    lines = [f"  {name + ':':<11}{text}" for name, text in rows.items() if text]
    return "\n".join([path, f"  {facts.doc}", "", *lines, ""])


def type_text(facts: Facts) -> str:
    """A type in words."""
    return _type_text(facts.type, facts.choices)


def _type_text(type: str, choices: Sequence[str]) -> str:
    kind, optional = type.removesuffix("?"), type.endswith("?")
    words = {
        "expr": "an expression over the task",
        "text": "a text, or `file(…)`",
        "datasets": "a dataset, or a block of named ones",
        "ref:model": "the name of a model",
        "list:ref:model": "a list of names of models",
        "enum": " | ".join(choices),
        "any": "any value",
        "data": "files, a folder or a hub id",
        "package_path": "a file, or one of a package",
        "list:call:dataset": "datasets",
    }
    text = words.get(kind, kind)
    if kind.startswith("call:"):
        text = f"a function of the kind {kind.removeprefix('call:')}"
    elif kind.startswith("list:") and kind not in words:
        text = f"a list of {kind.removeprefix('list:')}"
    return f"{text}, or none" if optional else text


def range_text(facts: Facts) -> str:
    """The range of a number in signs; empty without bounds."""
    if facts.low is None and facts.high is None:
        return ""
    low = "" if facts.low is None else f"{'> ' if facts.above else '>= '}{facts.low:g}"
    high = "" if facts.high is None else f"<= {facts.high:g}"
    return ", ".join(part for part in (low, high) if part)


def default_text(facts: Facts, field: Field[Any]) -> str:
    """The default as it would be written; `mandatory` where there must be a value."""
    if facts.required:
        return "mandatory"
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return written(value, quoted=facts.type.startswith("string"))


def written(value: Any, quoted: bool = False) -> str:
    """A value of the schema in the language's own signs."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'.replace("\n", "\\n") if quoted else value
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(written(item, quoted) for item in value)}]"
    if isinstance(value, Call):
        arguments = ", ".join(f"{name} = {written(item, True)}" for name, item in value.args.items())
        return f"{value.function}({arguments})"
    if isinstance(value, Mapping):
        return "none" if not value else str(value)
    return f"{value:g}" if isinstance(value, float) and value < 1e-3 else str(value)


def home_text(block: str) -> str:
    """Where a block may stand: on its own, or in which declarations."""
    if block in _HOMES:
        return "`agent` and `role`" if block == "agent" else f"`{block}`"
    owners = [home for home in _HOMES if any(field.name == block for field in fields(BLOCKS[home]))]
    return f"the block `{block}` of {' and '.join(f'`{owner}`' for owner in owners)}"


def scope_text(path: str, facts: Facts) -> str:
    """What else matters about a setting."""
    block, _, name = path.rpartition(".")
    on_agent = (name if block in _HOMES else block) in {field.name for field in fields(Agent)}
    return {
        "policy": "belongs to a policy: " + ("on an agent only where it owns one" if on_agent else "on the model only"),
        "training": "means nothing for what is frozen",
    }.get(facts.scope, "")


def function_text(signature: Signature) -> str:
    """What `drmasc explain` prints of one function."""
    lines = [f"  {_parameter_text(parameter)}" for parameter in signature.parameters]
    head = f"{signature.name}({'…' if lines else ''})  a function of the kind {signature.kind}"
    return "\n".join([head, f"  {signature.doc}", "", *lines, *([""] if lines else [])])


def _parameter_text(parameter: Parameter) -> str:
    """A parameter as a `param` is written: name, type, default and range."""
    type = parameter.type if parameter.default else parameter.type.removesuffix("?")  # `= none` says it already
    text = f"{parameter.name}: {_type_text(type, parameter.choices)}"
    if parameter.default is not REQUIRED:
        text += f" = {written(parameter.default, parameter.type.startswith('string'))}"
    if parameter.low is not None:
        text += f" in {parameter.low:g}..{'' if parameter.high is None else f'{parameter.high:g}'}"
    return text


def settings_page() -> str:
    """`docs/settings.md`."""
    out = [
        "# Settings",
        "",
        "Made by `python -m drmas_dsl.cli.reference` from the schema that the compiler checks with.",
    ]
    for block in BLOCKS:
        if block == "role":
            continue
        title = "agent, role" if block == "agent" else block
        doc = (BLOCKS[block].__doc__ or "").split("\n\n")[0].replace("\n    ", " ")
        out += [
            "",
            f"## {title}",
            "",
            doc,
            "",
            "| setting | type | range | default | what it is |",
            "|---|---|---|---|---|",
        ]
        for name, (facts, field) in facts_of(block).items():
            if facts.type == "block":
                cells = [f"a block, see [{name}](#{name})", "", ""]
            else:
                bounds = " ".join(part for part in (range_text(facts), facts.unit) if part)
                cells = [type_text(facts), bounds, default_text(facts, field)]
            scope = scope_text(f"{block}.{name}", facts)
            cells.append(facts.doc + (f" ({scope})" if scope else ""))
            row = " | ".join(cell.replace("|", "\\|") for cell in cells)
            out.append(f"| `{name}` | {row} |")
    return "\n".join([*out, *_functions()]) + "\n"


def _functions() -> Iterator[str]:
    """The section on functions: a table for each kind."""
    yield from ("", "# Functions", "", "With the type, default and range of every argument; given by place or by name.")
    for kind in dict.fromkeys(kind for kind, _ in FUNCTIONS):
        yield from ("", f"## {kind}", "", "| function | what it is |", "|---|---|")
        for signature in (found for (its, _), found in FUNCTIONS.items() if its == kind):
            arguments = ", ".join(map(_parameter_text, signature.parameters)).replace("|", "\\|")
            yield f"| `{signature.name}({arguments})` | {signature.doc} |"


def codes_page() -> str:
    """`docs/codes.md`: the table of codes, then every explanation."""
    out = [
        "# Findings",
        "",
        "Made by `python -m drmas_dsl.cli.reference`; `drmasc explain CODE` prints one of them.",
        "",
    ]
    for group, title in _GROUPS.items():
        codes = [code for code in CODES.values() if code.code.startswith(group)]
        out += [f"## {title}", "", "| code | finding |", "|---|---|", *map(_row, codes), ""]
    for code in CODES:
        out.append("#" + explanation(code).replace("\n# ", "\n## "))
    return "\n".join(out)


def _row(code: Code) -> str:
    anchor = "".join(letter for letter in f"{code.code} {code.title}".lower() if letter.isalnum() or letter in " -_")
    return f"| [{code.code}](#{anchor.replace(' ', '-')}) | {code.title} |"


def main(argv: list[str]) -> None:
    """Write both pages."""
    folder = Path(argv[0]) if argv else DOCS
    (folder / "settings.md").write_text(settings_page(), encoding="utf-8")
    (folder / "codes.md").write_text(codes_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
