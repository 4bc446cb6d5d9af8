"""Writes the data files of the systems that ship, the same bytes on every machine: the look-ups and sums of the small
systems, and the samples of the full-size ones (see `samples.py`).

    python -m graphs.data.make            writes the files beside this script
    python -m graphs.data.make FOLDER     writes them there
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from graphs.data import samples

Row = dict[str, Any]

KEYS = "bcdefghijklmnopqrstuvwxyz"  # without "a", which answer normalisation drops as an article
FACTS = 8


def lookup(rng: random.Random, hops: int) -> Row:
    """A question that takes `hops` look-ups. The facts form one ring, so a look-up too many finds a wrong answer and
    one of a key outside the ring finds nothing."""
    ring = rng.sample(KEYS, FACTS)
    facts = {key: ring[(place + 1) % FACTS] for place, key in enumerate(ring)}
    start = rng.randrange(FACTS)
    return {
        "question": f"{hops} {'hop' if hops == 1 else 'hops'} from {ring[start]}",
        "answer": ring[(start + hops) % FACTS],
        "hops": hops,
        "facts": dict(sorted(facts.items())),
    }


def lookups(seed: int, count: int, hops: tuple[int, ...]) -> Iterator[Row]:
    """`count` questions whose hops take turns."""
    rng = random.Random(seed)
    return (lookup(rng, hops[place % len(hops)]) for place in range(count))


def sums() -> Iterator[Row]:
    """All 55 sums of two digits below 10."""
    pairs = [(a, b) for a in range(10) for b in range(10 - a)]
    return ({"question": f"{a} + {b}", "answer": str(a + b)} for a, b in pairs)


RARELY = (0, 0, 0, 0, 0, 0, 0, 1)  # seven of eight questions need no search

FILES: dict[str, Callable[[], Iterator[Row]]] = {
    "lookup_train.jsonl": lambda: lookups(1, 480, (0, 1, 2)),
    "lookup_test.jsonl": lambda: lookups(2, 120, (0, 1, 2)),
    "contrast_train.jsonl": lambda: lookups(3, 480, RARELY),
    "contrast_test.jsonl": lambda: lookups(4, 80, (1,)),  # only those that need a search
    "arithmetic.jsonl": sums,
    "math_sample.jsonl": samples.math_train,
    "math500_sample.jsonl": samples.math500,
    "aime24_sample.jsonl": samples.aime24,
    "search_sample.jsonl": samples.search_train,
    "nq_sample.jsonl": samples.nq,
    "hotpotqa_sample.jsonl": samples.hotpotqa,
}


def main(folder: Path) -> None:
    """Write every file."""
    for name, rows in FILES.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
