"""Tiny models and requests that the tests of engines and of the cluster share."""

from drmas_dsl.graph.settings import Call, Model, Sampling
from runtime.engines.protocol import Request

SIZE = {"hidden": 32, "layers": 2, "heads": 4, "seed": 0}


def model(name="small", **settings):
    """A tiny model; `engine_args` are those of `hf`, the others are settings of the model or of `tiny`."""
    size = {key: settings.pop(key) for key in tuple(settings) if key in SIZE}
    engine = Call("hf", {"max_batch": 256, **settings.pop("engine_args", {})})
    return Model(name=name, weights=Call("tiny", {**SIZE, **size}), engine=engine, **settings)


def request(prompt, seed=0, policy="a", **sampling):
    """A request for a text (its bytes) or for token ids."""
    return Request(policy, tuple(prompt), Sampling(**{"max_tokens": 12, **sampling}), seed, (0, 0, seed))


def prompts(count, longest=40):
    """Different prompts of different lengths."""
    return [tuple((7 * row + 3 * place) % 250 for place in range(3 + row * 5 % longest)) for row in range(count)]
