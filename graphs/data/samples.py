"""A few questions of our own, and the layouts in which the published data sets come.

They are not taken from the benchmarks: they let the full-size systems check, compile and run before the real files are
there, and show what a row must look like. `make.py` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]

MATH_TRAIN = (
    ("How many integers from 1 to 100 are divisible by 3 or by 5?", "47"),
    ("Find the remainder when $7^{100}$ is divided by 5.", "1"),
    ("The sides of a triangle are 13, 14 and 15. Find its area.", "84"),
    ("Solve $\\log_2 (x + 6) = 5$ for $x$.", "26"),
)

MATH500 = (
    ("Simplify $\\frac{3}{4} - \\frac{1}{6}$.", "\\frac{7}{12}", "Prealgebra", 1),
    ("Find the sum of the roots of $2x^2 - 7x + 3 = 0$.", "\\frac{7}{2}", "Algebra", 2),
    ("In how many ways can 4 books be arranged on a shelf if two of them must stand together?", "12", "Counting", 3),
)

AIME = (
    ("Find the number of ordered pairs of positive integers $(a, b)$ with $ab = 2024$.", "16"),
    ("Find the least positive integer $n$ such that $n!$ ends in exactly 24 zeros.", "100"),
)

SEARCH_TRAIN = (
    ("nq", "who painted the ceiling of the sistine chapel", ["Michelangelo", "Michelangelo Buonarroti"]),
    ("nq", "what is the longest river in south america", ["Amazon", "Amazon River", "the Amazon"]),
    ("hotpotqa", "What is the capital of the country in which the river Vltava rises?", ["Prague"]),
    ("hotpotqa", "Were Marie Curie and Frédéric Chopin born in the same country?", ["yes"]),
)

NQ = (
    ("who wrote the origin of species", ["Charles Darwin", "Darwin"]),
    ("what is the chemical symbol for tungsten", ["W"]),
)

HOTPOTQA = (
    ("Which ocean borders the country whose capital is Lima?", ["Pacific", "Pacific Ocean", "the Pacific Ocean"]),
    ("In which city was the composer of The Magic Flute born?", ["Salzburg"]),
)


def published(question: str, truth: Any, source: str, ability: str, split: str, index: int) -> Row:
    """A row as the preparation scripts of veRL and its descendants write it."""
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": question}],
        "ability": ability,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": split, "index": index, "question": question},
        "env_kwargs": {"question": question, "ground_truth": truth, "data_source": source},
    }


def math_train() -> Iterator[Row]:
    return (published(q, a, "dapo_filter", "math", "train", i) for i, (q, a) in enumerate(MATH_TRAIN))


def math500() -> Iterator[Row]:
    """As MATH-500 itself comes: `problem`, `solution`, `answer`, `subject`, `level`, `unique_id`."""
    for index, (problem, answer, subject, level) in enumerate(MATH500):
        solution = f"The answer is $\\boxed{{{answer}}}$."
        yield {
            "problem": problem,
            "solution": solution,
            "answer": answer,
            "subject": subject,
            "level": level,
            "unique_id": f"sample/{index}",
        }


def aime24() -> Iterator[Row]:
    return (published(q, a, "aime24", "math", "test", i) for i, (q, a) in enumerate(AIME))


def search_train() -> Iterator[Row]:
    return (published(q, {"target": a}, s, "fact-reasoning", "train", i) for i, (s, q, a) in enumerate(SEARCH_TRAIN))


def nq() -> Iterator[Row]:
    """As the questions come before preparation: `question` and `golden_answers`."""
    return ({"id": f"test_{i}", "question": q, "golden_answers": a} for i, (q, a) in enumerate(NQ))


def hotpotqa() -> Iterator[Row]:
    return (published(q, {"target": a}, "hotpotqa", "fact-reasoning", "test", i) for i, (q, a) in enumerate(HOTPOTQA))
