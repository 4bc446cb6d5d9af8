"""`drmasc explain CODE|SETTING|FUNCTION`: what a finding means, with an example, or what a setting or function is."""

from __future__ import annotations

import argparse
import difflib

from drmas_dsl.cli.options import write_out
from drmas_dsl.cli.reference import explanation, function_text, setting_text, settings_by_path
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.errors import UserError
from drmas_dsl.semantics.functions import FUNCTIONS


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "subject", metavar="CODE|SETTING|FUNCTION", help="such as E0201, sampling.temperature, group_size or vllm"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation of a code, or of every setting that ends in what was given and every function of that name."""
    subject = arguments.subject
    if subject.upper() in CODES:
        write_out(explanation(subject.upper()), None)
        return 0
    settings = settings_by_path()
    found = [path for path in settings if path == subject] or [
        path for path in settings if f".{path}".endswith(f".{subject}")
    ]
    texts = [setting_text(path, settings[path]) for path in found]
    texts += [function_text(signature) for (_, name), signature in FUNCTIONS.items() if name == subject]
    if not texts:
        names = [*settings, *CODES, *(path.split(".")[-1] for path in settings), *(name for _, name in FUNCTIONS)]
        near = difflib.get_close_matches(subject, names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "docs/codes.md and docs/settings.md list all"
        raise UserError(f"there is no finding, setting or function called `{subject}`", hint)
    write_out("\n".join(texts), None)
    return 0
