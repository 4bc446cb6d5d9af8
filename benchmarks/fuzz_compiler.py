"""Mutates real systems and checks them: whatever the text, the compiler answers in time and without a traceback.

python -m benchmarks.fuzz_compiler [--seconds 60] [--seed 0]

Mutations cut, double, swap and insert characters, tokens, lines and blocks, also across files. Each result goes through `check` and
the renderers, and through the formatter where it parses. A failure is kept as a file in the current folder.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from drmas_dsl.compiler import check
from drmas_dsl.diagnostics.render import FORMATS, render
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.format import format_source
from drmas_dsl.syntax.lexer import lex
from drmas_dsl.syntax.source import Source

ROOT = Path(__file__).parent.parent
LIMIT = 5.0  # CPU seconds for one text; the usual is a hundredth of that
_SIGNS = ["{", "}", "(", ")", "[", "]", '"', '"""', "=", "==", "->", "..", ",", ";", "#", "\n", "\0", "\\", "'", "é", "漢", "\u202e", "{{", "{%", "%}", "-", "9" * 400, "1e999"]  # fmt: skip
_WORDS = "system use param model role agent tool flow task train eval resources output reward pool if elif else loop parallel break continue return in or and not true false none result history text".split()  # fmt: skip


def seeds() -> list[str]:
    """The systems that ship and the cases of the tests."""
    files = [*ROOT.glob("graphs/**/*.mas"), *ROOT.glob("tests/cases/**/*.mas"), *ROOT.glob("tests/syntax/**/*.mas")]
    return [path.read_text(encoding="utf-8") for path in sorted(files)]


def mutated(text: str, others: Sequence[str], rng: random.Random) -> str:
    """A text with a few changes."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        text = rng.choice(_CHANGES)(text, others, rng)
    return text


Change = Callable[[str, Sequence[str], random.Random], str]


def _pieces(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Cut out, double or move a piece."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    b = min(b, a + rng.choice((1, 3, 30, 300)))
    return rng.choice(
        (text[:a] + text[b:], text[:b] + text[a:b] * rng.choice((1, 2, 50)) + text[b:], text[b:] + text[:b])
    )


def _insert(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Put in a sign, a word or a piece of another file."""
    at = rng.randrange(len(text) + 1)
    other = rng.choice(others)
    start = rng.randrange(len(other) + 1)
    new = rng.choice((rng.choice(_SIGNS), f" {rng.choice(_WORDS)} ", other[start : start + rng.choice((5, 50, 500))]))
    return text[:at] + new + text[at:]


def _tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Leave out, double, replace or swap tokens."""
    tokens = lex(Source("x", text), Report())[0][:-1]
    if len(tokens) < 2:
        return text
    one, two = sorted(rng.sample(tokens, 2))
    first, second = text[one.start : one.end], text[two.start : two.end]
    new = rng.choice(("", f"{first} {first}", rng.choice(_WORDS), rng.choice(_SIGNS), second))
    if one.start < two.start and one.end <= two.start and rng.random() < 0.5:
        return text[: one.start] + new + text[one.end : two.start] + first + text[two.end :]
    return text[: one.start] + new + text[one.end :]


def _lines(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Leave out, double, shuffle or break lines."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    if rng.random() < 0.3:
        lines[i] = lines[i][: rng.randrange(len(lines[i]) + 1)]
    elif rng.random() < 0.5:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        lines[i] *= rng.choice((0, 2))
    return "".join(lines)


_CHANGES: tuple[Change, ...] = (_pieces, _insert, _tokens, _lines)


def furnish(folder: Path) -> None:
    """Lay beside the texts what they name: prompts, data and files that they use."""
    for place in (ROOT / "graphs", ROOT / "tests" / "cases"):
        for entry in place.iterdir():
            if entry.is_dir():
                (folder / entry.name).symlink_to(entry)


def examine(text: str, path: Path) -> float:
    """Check, render and format a text; CPU seconds. Raises what it should not."""
    path.write_text(text, encoding="utf-8", newline="")
    start = time.process_time()
    result = check(path)
    for format in FORMATS:
        render(result.diagnostics, result.sources, format)
    formatted, _ = format_source(Source(str(path), text.replace("\r\n", "\n")))
    if formatted is not None and format_source(Source(str(path), formatted))[0] != formatted:
        raise AssertionError("formatting twice differs from formatting once")
    return time.process_time() - start


def main() -> int:
    """Fuzz until the time is over or something fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, texts = random.Random(arguments.seed), seeds()
    end = time.monotonic() + arguments.seconds
    count, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        furnish(Path(folder))
        while time.monotonic() < end:
            text = mutated(rng.choice(texts), texts, rng)
            try:
                seconds = examine(text, Path(folder) / "fuzzed.mas")
                if seconds > LIMIT:
                    raise AssertionError(f"took {seconds:.1f} s")
            except Exception:
                traceback.print_exc()
                kept = Path(f"fuzz-failure-{arguments.seed}-{count}.mas")
                kept.write_text(text, encoding="utf-8", newline="")
                print(f"after {count} texts; the text is in {kept}", file=sys.stderr)
                return 1
            count, slowest = count + 1, max(slowest, seconds)
    print(f"{count} texts, no traceback, slowest {slowest:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
