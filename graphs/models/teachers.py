"""The noisy teachers whose demonstrations the small models start from.

A teacher reads an agent's prompt, and nothing else, and writes a response: the right one, unless chance makes it a wrong
one. Wrong demonstrations leave reinforcement learning something to do; the format is always right. The prompts
themselves come from the system's own templates, by way of the interpreter (see `warm_start`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from graphs.data.make import KEYS


@dataclass(frozen=True, slots=True)
class Noise:
    """Shares of demonstrations: `wrong` for work that is replaced by a random one (which may be right by chance),
    `flipped` for verdicts turned into their opposite."""

    wrong: float
    flipped: float


Teacher = Callable[[str, str, Noise, random.Random], str]


def look_up(agent: str, prompt: str, noise: Noise, rng: random.Random) -> str:
    """Verifier, Search and Answer of the look-up team. The chain is what was found so far, link by link."""
    asked = re.search(r"(\d+) hops? from (\w)", prompt)
    assert asked, prompt
    hops, chain = int(asked[1]), [asked[2]]
    for key, found in re.findall(r"^(\w) -> (\w)$", prompt, re.MULTILINE):
        if key == chain[-1]:
            chain.append(found)
    if agent == "Verifier":
        enough = (len(chain) > hops) != (rng.random() < noise.flipped)
        return f"<verify>{'yes' if enough else 'no'}</verify>"
    right = chain[-1] if agent == "Search" else chain[min(hops, len(chain) - 1)]
    key = rng.choice(KEYS) if rng.random() < noise.wrong else right
    return f"<{agent.lower()}>{key}</{agent.lower()}>"


def add(agent: str, prompt: str, noise: Noise, rng: random.Random) -> str:
    """Solver and Verifier of the sums."""
    asked = re.search(r"(\d+) \+ (\d+)", prompt)
    assert asked, prompt
    total = int(asked[1]) + int(asked[2])
    if agent == "Verifier":
        right = re.search(rf"^Answer: {total}$", prompt, re.MULTILINE) is not None
        return f"<verify>{'approve' if right != (rng.random() < noise.flipped) else 'reject'}</verify>"
    return f"<answer>{rng.randrange(10) if rng.random() < noise.wrong else total}</answer>"
