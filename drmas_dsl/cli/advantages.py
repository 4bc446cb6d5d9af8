"""`drmasc advantages TURNS.jsonl|RUN`: the advantages of recorded turns under any normalisation.

Needs NumPy and none of the packages that run systems.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("turns", type=Path, metavar="TURNS.jsonl|RUN", help="a file of turns, or a run folder")
    parser.add_argument(
        "--normalize",
        metavar="NAME",
        help="agent, agent_mean, agent_std, turn, trajectory or 'stats(mean = …, std = …)'; default: the run's, or agent",
    )
    parser.add_argument("--algorithm", metavar="NAME", help="grpo, dr_grpo, rloo, …; default: the run's, or grpo")
    parser.add_argument(
        "--lone", choices=("raw", "drop"), help="a turn alone in its statistics keeps its score, or gets 0"
    )
    parser.add_argument(
        "--format", choices=("json", "text"), default="json", help="turns in order, or a table of agents"
    )


def run(arguments: argparse.Namespace) -> int:
    """Recompute and print."""
    if find_spec("numpy") is None:
        raise UserError("this command needs numpy", "install it with: pip install numpy")
    from runtime.learning.recorded import read, recompute, table

    recorded = read(arguments.turns)
    train = recorded.train
    if arguments.normalize is not None:
        train = replace(train, normalize=_call(arguments.normalize))
    if arguments.algorithm is not None:
        train = replace(train, algorithm=Call(arguments.algorithm))
    if arguments.lone is not None:
        train = replace(train, lone=arguments.lone)
    rows, figures = recompute(replace(recorded, train=train))
    print(table(rows, figures) if arguments.format == "text" else json.dumps(rows, indent=1, ensure_ascii=False))
    return 0


def _call(text: str) -> Call:
    """`name` or `stats(mean = agent, std = none)`; which names exist is not decided here."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    arguments = [part.split("=") for part in (match[2] or "").split(",") if part.strip()] if match else [[""]]
    if match is None or any(len(pair) != 2 for pair in arguments):
        raise UserError(f"{text!r} is no normalisation", "write a name, or stats(mean = agent, std = none)")
    return Call(match[1], {name.strip(): value.strip().strip("\"'") for name, value in arguments})
