"""All declarations of a system: those of the main file and of every file that it uses, in one namespace.

Finds missing and circular `use`, duplicates and missing declarations. What the declarations say is looked at later.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from drmas_dsl.diagnostics.diagnostic import Help, Label
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.functions import FUNCTIONS
from drmas_dsl.semantics.plugins import KINDS, read_plugin
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Source, Span

# Names that mean something of their own in prompts and rewards.
RESERVED = {
    "history": "the turns so far, in prompts",
    "result": "the value that the flow returned, in `task`",
    "calls": "the count of an agent's calls, in `task`",
}


@dataclass(slots=True)
class Program:
    """The declarations by kind and name, in source order (a used file's stand where it is used). `plugins` are the
    Python files as used. Names that are declared twice are `ambiguous`: the first counts."""

    system: ast.SystemDecl | None = None
    flow: ast.FlowDecl | None = None
    params: dict[str, ast.ParamDecl] = field(default_factory=dict)
    entities: dict[str, ast.EntityDecl] = field(default_factory=dict)
    tools: dict[str, ast.ToolDecl] = field(default_factory=dict)
    patterns: dict[str, ast.FlowDecl] = field(default_factory=dict)
    sections: dict[str, ast.SectionDecl] = field(default_factory=dict)
    plugins: list[dict[str, str]] = field(default_factory=list)
    declared: dict[str, ast.Ident] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)

    def of_kind(self, kind: str) -> dict[str, ast.EntityDecl]:
        """The models, roles or agents."""
        return {name: entity for name, entity in self.entities.items() if entity.kind == kind}


def load(main: ast.File, context: Context) -> Program:
    """All declarations of the main file and of what it uses."""
    program = Program()
    _Loader(program, context).file(main)
    for name, entity in program.entities.items():
        context.others[name] = {"model": "a model", "role": "a role", "agent": "an agent"}[entity.kind]
    context.others |= dict.fromkeys(program.tools, "a tool") | dict.fromkeys(program.patterns, "a pattern")
    context.models = list(program.of_kind("model"))
    _missing(program, main, context)
    return program


def _missing(program: Program, main: ast.File, context: Context) -> None:
    start = Span(main.path, 0, 0)
    for there, what, example in (
        (program.system, "system", 'begin with `system name "what it does"`'),
        (program.flow, "flow", "write `flow { … }`, from the first agent to `return`"),
        (program.sections.get("task"), "task", "write `task { reward = … }`"),
    ):
        if there is None:
            context.report.add("E0210", f"there is no `{what}`", start, help=Help(example))


@dataclass(slots=True)
class _Loader:
    program: Program
    context: Context
    # The files being read, outermost first, with the `use` that led to the next.
    stack: list[tuple[str, ast.UseDecl | None]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def file(self, file: ast.File) -> None:
        path = os.path.abspath(file.path)
        self.stack.append((path, None))
        for declaration in file.declarations:
            if isinstance(declaration, ast.UseDecl):
                self.use(declaration)
            else:
                self.add(declaration)
        self.stack.pop()
        self.done.add(path)

    def use(self, use: ast.UseDecl) -> None:
        report, name = self.context.report, use.path.value
        if not name.endswith((".mas", ".py")):
            report.add("E0301", "`use` takes a .mas or a .py file", use.path.span)
            return
        if not self.context.exists(use.path, "file"):
            return
        path = self.context.absolute(name, use.path.span.file)
        self.stack[-1] = (self.stack[-1][0], use)
        files = [file for file, _ in self.stack]
        if path in files:
            self.cycle(files.index(path), use)
            return
        if path in self.done:
            return
        shown = os.path.normpath(os.path.join(os.path.dirname(use.path.span.file), name)).replace(os.sep, "/")
        source = read_source(shown, path, use.path, self.context)
        if source is None:
            return
        if name.endswith(".py"):
            self.done.add(path)
            self.program.plugins.append(self.context.value(name, use.path.span.file))
            self.plugin(source)
            return
        from drmas_dsl.syntax.parser import parse

        tree, findings = parse(source)
        report.diagnostics.extend(findings)
        self.file(tree)

    def cycle(self, first: int, use: ast.UseDecl) -> None:
        """Report files that use each other, at the first `use` among them."""
        uses = [with_use for _, with_use in self.stack[first:] if with_use is not None]
        labels = [Label(other.path.span, "and this one closes the circle") for other in uses[1:] if other is use]
        names = [os.path.basename(file) for file, _ in self.stack[first:]]
        message = "`" + "` uses `".join([*names, names[0]]) + "`"
        self.context.report.add(
            "E0204", f"files use each other in a circle: {message}", uses[0].path.span, labels=labels
        )

    def plugin(self, source: Source) -> None:
        for function in read_plugin(source, self.context.report):
            first = self.context.plugins.setdefault(function.name, function)
            if first is not function:
                labels = [Label(first.span, "first defined here")]
                message = f"two plug-ins define `{function.name}`"
                self.context.report.add("E0202", message, function.span, labels=labels)
            elif any((kind, function.name) in FUNCTIONS for kind in (*KINDS, "reducer")):
                message = f"`{function.name}` is the name of a built-in function"
                self.context.report.add("E0202", message, function.span, help=Help("rename the function"))

    def add(self, declaration: ast.Declaration) -> None:
        program = self.program
        match declaration:
            case ast.SystemDecl():
                if self.only(program.system, declaration.keyword, "system"):
                    program.system = declaration
            case ast.FlowDecl(name=None):
                if self.only(program.flow, declaration.keyword, "flow"):
                    program.flow = declaration
            case ast.SectionDecl(kind=kind):
                if self.only(program.sections.get(kind), declaration.keyword, kind):
                    program.sections[kind] = declaration
            case ast.ParamDecl(name=name):
                if self.fresh(name):
                    program.params[name.name] = declaration
            case ast.EntityDecl(name=name):
                if self.fresh(name):
                    program.entities[name.name] = declaration
            case ast.ToolDecl(name=name):
                if self.fresh(name):
                    program.tools[name.name] = declaration
            case ast.FlowDecl(name=ast.Ident() as name):
                if self.fresh(name):
                    program.patterns[name.name] = declaration

    def only(self, first: ast.Declaration | None, keyword: Span, what: str) -> bool:
        if first is None:
            return True
        labels = [Label(first.keyword, "the first one")]
        self.context.report.add("E0202", f"there is a second `{what}`", keyword, labels=labels)
        return False

    def fresh(self, name: ast.Ident) -> bool:
        first = self.program.declared.setdefault(name.name, name)
        self.context.places.setdefault(name.name, name.span)
        if first is not name:
            self.program.ambiguous.add(name.name)
            labels = [Label(first.span, "first declared here")]
            help = Help("all declarations share one namespace: choose another name")
            self.context.report.add("E0202", f"`{name.name}` is declared twice", name.span, labels=labels, help=help)
        elif name.name in RESERVED:
            message = f"`{name.name}` is reserved: {RESERVED[name.name]}"
            self.context.report.add("E0212", message, name.span, help=Help("choose another name"))
        return first is name


def read_source(shown: str, path: str, text: ast.Text, context: Context) -> Source | None:
    """The file at `path` as a source named `shown`; one that cannot be read is reported at `text`."""
    try:
        source = Source(shown, Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        context.report.add("E0702", f"`{text.value}` is not UTF-8 text", text.span)
        return None
    except OSError as error:
        context.report.add("E0702", f"`{text.value}` cannot be read: {error.strerror}", text.span)
        return None
    context.sources[shown] = source
    return source
