"""Whatever a file says, the stage answers with findings that have a place, and never with an exception."""

from __future__ import annotations

import random
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from drmas_dsl.semantics.resolve import resolve
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "graphs" / "math.mas", ROOT / "graphs" / "search.mas", ROOT / "tests" / "cases" / "fine_everything.mas"]
TOKENS = re.compile(r'"""(?:.|\n)*?"""|"[^"\n]*"|\w+|\s+|[^\w\s]')
WORDS = """true none 0 -1 1e999 0.5 "x" [] [1] task loop agent Solver policy Verifier . = ( ) { } , : vote(1) boxed grpo
choice("a") file("x") dataset("x.jsonl") "{{x}}" "{%" tiny() openai("u","m") == + not if return output model""".split()


@settings(max_examples=60, deadline=None)
@given(st.integers(), st.sampled_from(FILES), st.sampled_from(["", "model.sharing=full", "train.steps=x", "A.role=1"]))
def test_garbled_systems(seed: int, path: Path, override: str) -> None:
    rng = random.Random(seed)
    tokens = TOKENS.findall(path.read_text(encoding="utf-8"))
    for _ in range(rng.randint(1, 4)):
        tokens[rng.randrange(len(tokens))] = rng.choice(["", *WORDS, rng.choice(tokens)])
    source = Source(str(path), "".join(tokens))
    tree, syntax = parse(source)
    sources = {source.file: source}
    _, found = resolve(tree, sources, [override] if override else [], partial=bool(syntax))
    for finding in found:
        text = sources[finding.span.file].text
        assert 0 <= finding.span.start <= finding.span.end <= len(text)
        assert finding.message
