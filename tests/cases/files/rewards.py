"""Rewards of the test cases."""


def closeness(answer: str | None, gold: str, scale: float = 1.0) -> float:
    """How near the answer is."""
    return scale if answer == gold else 0.0


def shout(text: str, *, mark: str = "!") -> str | None:
    """The text before the last mark."""
    return text.rpartition(mark)[0] or None


def search(query: str, *, top_k: int = 3) -> str:
    """A tool of its own."""
    return query * top_k
