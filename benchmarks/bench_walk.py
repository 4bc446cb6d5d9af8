"""What a rollout costs besides generation: CPU time of a step with an engine that answers at once, against only encoding and
decoding the same texts.

    python -m benchmarks.bench_walk [--questions 8] [--group 8] [--rounds 4] [--runs 9]

Two agents talk `rounds` times, each reading all of the history; every response differs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from runtime.engines.protocol import Completion, Request
from runtime.models import load_tokenizer
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout

SYSTEM = """
system talk
model m {{ weights = tiny() }}
role Talker {{
  model  = m
  prompt = \"\"\"
    You are {{{{ role }}}}. Question: {{{{ task.question }}}}
    {{% for turn in history %}}
    {{{{ turn.agent }}}} wrote: {{{{ turn.text }}}}
    {{% endfor %}}
    Put the answer in <a>.
  \"\"\"
  output answer = tag("a")
  sampling {{ max_tokens = 64 }}
}}
agent A : Talker {{}}
agent B : Talker {{}}
flow {{ loop {rounds} {{ A -> B }} return B.answer }}
task {{ reward = exact_match(result, task.answer) }}
"""


class Instant:
    """Answers at once, each request with one of many texts that were encoded before."""

    def __init__(self, tokenizer: Any) -> None:
        texts = [f"I think that it is <a>{number}</a>" for number in range(997)]
        ids = [(*tokenizer(text).input_ids, tokenizer.eos_token_id) for text in texts]
        self._said = [Completion(each, (-0.5,) * len(each), "stop", 0) for each in ids]

    async def generate(self, requests: list[Request]) -> list[Completion]:
        """Completions in the order of the requests."""
        return [self._said[request.seed % len(self._said)] for request in requests]


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def main() -> None:
    """Alternate the two and print the medians and their difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("questions", 8), ("group", 8), ("rounds", 4), ("runs", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talk.mas")
        path.write_text(SYSTEM.format(rounds=arguments.rounds), encoding="utf-8")
        graph = compile_file(path)
    tokenizer = load_tokenizer(system_of(graph).models["m"], "")
    engine = Instant(tokenizer)
    rows = [{"id": str(n), "question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(arguments.questions)]

    def step() -> list[Trajectory]:
        work = rollout(
            graph,
            rows,
            step=1,
            group_size=arguments.group,
            seed=0,
            engines={"m": engine},
            tokenizers={"m": tokenizer},
        )
        return asyncio.run(work)

    turns = [turn for trajectory in step() for turn in trajectory.turns]

    def tokenize() -> None:
        for turn in turns:
            tokenizer(turn.prompt)
            tokenizer.decode(turn.response_ids)

    pairs = [(cpu_ms(step), cpu_ms(tokenize)) for _ in range(arguments.runs)]
    whole, tokens = (statistics.median(column) for column in zip(*pairs, strict=True))
    own = statistics.median(a - b for a, b in pairs)
    print(f"{arguments.questions * arguments.group} trajectories, {len(turns)} turns, median of {arguments.runs}")
    print(f"a step without generation: {whole:.0f} ms of CPU time")
    print(f"tokenizing the same texts: {tokens:.0f} ms")
    print(f"the rest: {own:.0f} ms, {own / len(turns) * 1000:.0f} us for each turn")


if __name__ == "__main__":
    main()
