"""`drmasc explain CODE|SETTING`: what a finding means, with an example, or what a setting is."""

from __future__ import annotations

import argparse
import difflib

from drmas_dsl.cli.options import write_out
from drmas_dsl.cli.reference import explanation, setting_text, settings_by_path
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("subject", metavar="CODE|SETTING", help="such as E0201, sampling.temperature or group_size")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation of a code, or of every setting that ends in what was given."""
    subject = arguments.subject
    if subject.upper() in CODES:
        write_out(explanation(subject.upper()), None)
        return 0
    settings = settings_by_path()
    found = [path for path in settings if path == subject] or [
        path for path in settings if f".{path}".endswith(f".{subject}")
    ]
    if not found:
        near = difflib.get_close_matches(subject, [*settings, *CODES, *(path.split(".")[-1] for path in settings)], n=1)
        hint = f"did you mean `{near[0]}`?" if near else "docs/codes.md and docs/settings.md list all"
        raise UserError(f"there is no finding and no setting called `{subject}`", hint)
    write_out("\n".join(setting_text(path, settings[path]) for path in found), None)
    return 0
