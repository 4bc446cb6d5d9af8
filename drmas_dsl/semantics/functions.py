"""Signatures of the functions that the language knows: parsers, reducers, rewards, tools, datasets, weights, engines,
algorithms and normalisations.

The table is the language's side; the runtime holds the implementations under the same names, and a test compares the
two, parameter by parameter. Types: int, float, bool, string, any, path (a file or folder, found from the file that
names it), package_path (a path, or `installed_package:file`), data (files of a dataset, or a hub id), enum, call:KIND (a
call of a function of that kind), list:TYPE, TYPE? (also `none`); `*` before a name takes all further positional arguments
as a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()
# A default that only a plug-in's own code knows: the argument is left out of the call.
OMITTED: Any = type("Omitted", (), {"__repr__": lambda self: "its own default"})()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `low` and `high` are inclusive; a parameter without default is `REQUIRED`."""

    name: str
    type: str
    default: Any = REQUIRED
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """One function. `kind` says where it may stand: parser, reducer (lists in the flow), reward (expressions of task
    and flow), tool, dataset, weights, engine, algorithm, normalize. `honours` names, for an algorithm or engine, the
    settings that it reads and that others do not."""

    name: str
    kind: str
    parameters: tuple[Parameter, ...]
    returns: str
    doc: str
    honours: tuple[str, ...] = ()


def _p(
    name: str, type: str, default: Any = REQUIRED, low: float | None = None, high: float | None = None, *choices: str
) -> Parameter:
    return Parameter(name, type, default, low, high, choices)


_AFTER = _p("after", "string?", None)
_OF = ("agent", "trajectory", "turn")
_KL = _p("kl_estimator", "enum", "k3", None, None, "k2", "k3")
_GRPO_LOSS = (_p("kl", "float", 0.0, 0), _KL, _p("entropy", "float", 0.0, 0))
_CLIPPED = (_p("clip", "float", 0.2, 0, 1), _p("clip_high", "float?", None, 0), *_GRPO_LOSS)

_TABLE = (
    # Parsers: the text of a response to a value; the last occurrence counts; `after = "think"` reads behind </think>.
    Signature("tag", "parser", (_p("name", "string"), _AFTER), "string", "The text between `<name>` and `</name>`."),
    Signature(
        "choice",
        "parser",
        (_p("*options", "list:string"), _p("tag", "string?", None), _p("default", "string?", None), _AFTER),
        "string",
        "One of the options, stripped and without regard to case, in the tag where one is named.",
    ),
    Signature("boxed", "parser", (_AFTER,), "string", "The content of the last `\\boxed{…}`."),
    Signature("number", "parser", (_AFTER,), "float", "The last number in the text."),
    Signature("json", "parser", (_AFTER,), "any", "The last JSON object or array in the text."),
    Signature("regex", "parser", (_p("pattern", "string"), _AFTER), "string", "Group 1 (or all) of the last match."),
    Signature("text", "parser", (_AFTER,), "string", "The whole text, stripped; empty does not parse."),
    # Reducers over the lists that a parallel part leaves.
    Signature(
        "vote", "reducer", (_p("xs", "list:any"),), "item", "The commonest value; skips none; ties to the earliest."
    ),
    Signature("first", "reducer", (_p("xs", "list:any"),), "item", "The first value that is not none."),
    Signature(
        "best", "reducer", (_p("xs", "list:any"), _p("by", "list:float")), "item", "The value whose `by` is largest."
    ),
    Signature(
        "concat",
        "reducer",
        (_p("xs", "list:any"), _p("separator", "string", "\n")),
        "string",
        "The values as one text.",
    ),
    Signature(
        "count",
        "reducer",
        (_p("xs", "list:any"), _p("value", "any", None)),
        "int",
        "How many are not none, or equal `value`.",
    ),
    # Rewards. Every one of them gives 0 for none.
    Signature(
        "math_equal",
        "reward",
        (_p("answer", "any"), _p("gold", "any")),
        "float",
        "1 where both are mathematically equal.",
    ),
    Signature(
        "exact_match",
        "reward",
        (_p("answer", "any"), _p("gold", "any")),
        "float",
        "1 where equal after the SQuAD normalisation.",
    ),
    Signature(
        "f1", "reward", (_p("answer", "any"), _p("gold", "any")), "float", "Token F1 after the SQuAD normalisation."
    ),
    Signature("equal", "reward", (_p("answer", "any"), _p("gold", "any")), "float", "1 where equal as stripped texts."),
    Signature(
        "reasoning_gym_score",
        "reward",
        (_p("answer", "any"), _p("entry", "any")),
        "float",
        "What the verifier of a `reasoning_gym(…)` task gives for an answer to the row with this `task.entry`.",
    ),
    # Tools: called in the flow as `x = tool(…)` with the arguments that follow the bound ones.
    Signature("lookup", "tool", (), "string", "Called with (key, facts): the fact's value, or `unknown`."),
    Signature(
        "http_retriever",
        "tool",
        (
            _p("url", "string?", None),
            _p("top_k", "int", 3, 1),
            _p("timeout", "float", 10.0, 0),
            _p("retries", "int", 3, 0),
            _p("urls", "list:string?", None),
        ),
        "string",
        "Called with (query): the passages that a retrieval server finds; `url` names one, `urls` several to ask in turn.",
    ),
    Signature(
        "bm25",
        "tool",
        (_p("corpus", "path"), _p("top_k", "int", 3, 1)),
        "string",
        "Called with (query): the passages of a corpus file that fit best, found in this process.",
    ),
    # Datasets.
    Signature(
        "dataset",
        "dataset",
        (
            _p("path", "data"),
            _p("columns", "list:string?", None),
            _p("split", "string?", None),
            _p("config", "string?", None),
        ),
        "rows",
        "Rows of JSONL, CSV and Parquet files (one, a folder of them, or a pattern), or of a dataset of the hub.",
    ),
    Signature(
        "mix",
        "dataset",
        (_p("*datasets", "list:call:dataset"), _p("weights", "list:float?", None)),
        "rows",
        "Rows of several datasets, drawn by weight; without weights by their sizes.",
    ),
    Signature(
        "reasoning_gym",
        "dataset",
        (
            _p("task", "string"),
            _p("size", "int", 500, 1),
            _p("seed", "int", 0, 0),
            _p("options", "list:string?", None),
        ),
        "rows",
        "Generated questions of a task of Reasoning Gym, graded by `reasoning_gym_score(result, task.entry)`.",
    ),
    # Weights.
    Signature(
        "gguf",
        "weights",
        (_p("file", "package_path"),),
        "weights",
        "A GGUF file: a path, or `installed_package:file.gguf`.",
    ),
    Signature(
        "tiny",
        "weights",
        (
            _p("hidden", "int", 64, 8),
            _p("layers", "int", 2, 1),
            _p("heads", "int", 4, 1),
            _p("seed", "int", 0, 0),
        ),
        "weights",
        "A randomly initialised model over bytes, for tests.",
    ),
    # Engines.
    Signature(
        "hf",
        "engine",
        (_p("max_batch", "int", 256, 1), _p("timeout", "float", 3600.0, 1), _p("sleep", "bool", False)),
        "engine",
        "transformers, embedded. `max_batch`: requests at once; `timeout`: seconds for one call; `sleep`: on a GPU, gives its "
        "memory back while the learners of its pool update.",
    ),
    Signature(
        "vllm",
        "engine",
        (
            _p("gpu_memory", "float", 0.9, 0, 1),
            _p("kv_memory", "float?", None, 0),
            _p("tensor_parallel", "int", 1, 1),
            _p("engines", "int", 1, 1),
            _p("max_batch", "int", 256, 1),
            _p("batch_tokens", "int?", None, 1),
            _p("eager", "bool", False),
            _p("timeout", "float", 3600.0, 1),
            _p("sleep", "bool", False),
        ),
        "engine",
        "vLLM. `gpu_memory`: its share of each GPU; `kv_memory`: GiB of cache in place of what that leaves; `tensor_parallel`: "
        "GPUs of one engine; `engines`: how many serve each policy; `max_batch`, `batch_tokens`: requests and tokens of a "
        "step; `eager`: no compilation and no CUDA graphs; `timeout`, `sleep`: as of `hf`.",
    ),
    Signature(
        "openai",
        "engine",
        (
            _p("url", "string"),
            _p("model", "string"),
            _p("timeout", "float", 60.0, 0),
            _p("retries", "int", 3, 0),
            _p("concurrency", "int", 16, 1),
        ),
        "engine",
        "A remote model behind the OpenAI protocol; always frozen. `timeout`: seconds for one attempt; `retries`: further "
        "attempts; `concurrency`: requests at once. The key is read from OPENAI_API_KEY.",
    ),
    # Algorithms. `honours`: `aggregate` (the policy's; the others bring their own) and `deviation` (the normalisation's;
    # the others do not divide).
    Signature(
        "grpo",
        "algorithm",
        _CLIPPED,
        "algorithm",
        "Group-relative policy optimisation; `clip_high` defaults to `clip`.",
        honours=("aggregate", "deviation"),
    ),
    Signature(
        "dr_grpo",
        "algorithm",
        _CLIPPED,
        "algorithm",
        "GRPO without division by the deviation or by the response's length.",
    ),
    Signature(
        "rloo",
        "algorithm",
        _CLIPPED,
        "algorithm",
        "Leave-one-out baseline within the same statistics, no deviation.",
        honours=("aggregate",),
    ),
    Signature(
        "reinforce_pp",
        "algorithm",
        (*_CLIPPED[:3], _p("kl_estimator", "enum", "k2", None, None, "k2", "k3"), _CLIPPED[4]),
        "algorithm",
        "REINFORCE++ with a group baseline: the deviation is that of the whole step.",
        honours=("aggregate", "deviation"),
    ),
    Signature(
        "dapo",
        "algorithm",
        (
            _CLIPPED[0],
            _p("clip_high", "float", 0.28, 0),
            *_GRPO_LOSS,
            _p("resample", "int", 3, 0),
            _p("overlong_buffer", "int", 0, 0),
            _p("overlong_penalty", "float", 1.0, 0),
        ),
        "algorithm",
        "Clip-higher, token mean, groups without variance replaced up to `resample` times, and a soft punishment in the "
        "last `overlong_buffer` tokens before `max_tokens`.",
        honours=("deviation",),
    ),
    # Normalisations.
    Signature("agent", "normalize", (), "normalize", "Mean and deviation of the agent's turns in the group (Dr. MAS)."),
    Signature("agent_mean", "normalize", (), "normalize", "The agent's mean, the trajectories' deviation."),
    Signature("agent_std", "normalize", (), "normalize", "The trajectories' mean, the agent's deviation."),
    Signature("turn", "normalize", (), "normalize", "Mean and deviation of all turns of the group."),
    Signature("trajectory", "normalize", (), "normalize", "Mean and deviation of the trajectories' values (GRPO)."),
    Signature(
        "stats",
        "normalize",
        (_p("mean", "enum", REQUIRED, None, None, *_OF), _p("std", "enum", REQUIRED, None, None, *_OF, "none")),
        "normalize",
        "Any two of them.",
    ),
)

FUNCTIONS: dict[tuple[str, str], Signature] = {(f.kind, f.name): f for f in _TABLE}

# What a tool takes in the flow, behind its bound settings: names and types of the call's own arguments.
TOOL_CALLS: dict[str, tuple[Parameter, ...]] = {
    "lookup": (_p("key", "any"), _p("facts", "any")),
    "http_retriever": (_p("query", "any"),),
    "bm25": (_p("query", "any"),),
}
