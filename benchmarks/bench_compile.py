"""How the compiler scales: a system of 1,000 agents with flows of 1,000 and 10,000 statements, checked and compiled to JSON.

    python -m benchmarks.bench_compile [--runs 5]

Seconds are processor time of this process (wall-clock time beside it), the sizes in turn; the ratio is that of the time per statement.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.serialize import to_json

AGENTS = 1000
SIZES = (1_000, 10_000)


def system(statements: int) -> str:
    """A system whose flow has calls, chains, branches and loops; every call, `if`, `loop`, `break` and `return` counts."""
    agents = "\n".join(
        f'agent A{i} {{ model = m, prompt = "{{{{ task.question }}}}{" {{ A0.word }}" if i else ""}", output word = tag("w") }}'
        for i in range(AGENTS)
    )
    lines, count = ["A0"], 2  # with the return
    while count < statements:
        agent = len(lines) % AGENTS
        other = (agent * 7 + 1) % AGENTS
        text, cost = (
            (f"A{agent}", 1),
            (f'if A0.word == "x{agent}" {{ A{agent} }} else {{ A{other} }}', 3),
            (f"A{agent} -> A{other}", 2),
            (f"loop 2 {{ A{agent}  if loop.last {{ break }} A{other} }}", 5),
        )[len(lines) % 4]
        lines.append(text)
        count += cost
    flow = "\n".join(lines)
    return (
        f"system big\nmodel m {{ weights = tiny(), context = 1000000000 }}\n{agents}\n"
        f"flow {{\n{flow}\nreturn A0.word\n}}\ntask {{ reward = exact_match(result, task.answer) }}\n"
    )


def measure(path: Path) -> tuple[float, float]:
    """Processor and wall-clock seconds of checking and compiling a file."""
    cpu, wall = time.process_time(), time.perf_counter()
    to_json(compile_file(path), str(path.parent))
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Measure the sizes in turn and print medians and the ratio."""
    gc.disable()  # as the commands `check` and `compile` do
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"flow{size}.mas" for size in SIZES]
        for path, size in zip(paths, SIZES, strict=True):
            path.write_text(system(size), encoding="utf-8")
        measure(paths[0])
        rounds = [[measure(path) for path in paths] for _ in range(arguments.runs)]
    per_statement = []
    for column, size in enumerate(SIZES):
        cpu = statistics.median(measured[column][0] for measured in rounds)
        wall = statistics.median(measured[column][1] for measured in rounds)
        per_statement.append(cpu / size)
        print(f"{AGENTS:,} agents, {size:,} statements: {cpu:.2f} s of processor time, {wall:.2f} s")
    print(
        f"time per statement, {SIZES[1]:,} against {SIZES[0]:,} statements: {per_statement[1] / per_statement[0]:.2f}"
    )


if __name__ == "__main__":
    main()
