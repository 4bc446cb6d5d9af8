"""Cold start of `drmasc check` against importing lark, networkx and jinja2, in turn, as a ratio of medians.

python -m benchmarks.bench_check [FILE] [--runs 15]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
BASELINE = [sys.executable, "-c", "import lark, networkx, jinja2"]

# Installed packages come compiled; so must the checkout's modules, from the run that is not counted on.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of a command as a whole process, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - start


def main() -> None:
    """Alternate the two commands and print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", default=str(ROOT / "graphs" / "math.mas"))
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    check = [sys.executable, "-m", "drmas_dsl.cli.main", "check", arguments.file]
    seconds(BASELINE), seconds(check)
    pairs = [(seconds(check), seconds(BASELINE)) for _ in range(arguments.runs)]
    ours, base = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"drmasc check {Path(arguments.file).name}: {ours * 1000:.0f} ms, median of {arguments.runs}")
    print(f"import lark, networkx, jinja2: {base * 1000:.0f} ms")
    print(f"ratio, pair by pair: {ratio:.2f}")


if __name__ == "__main__":
    main()
