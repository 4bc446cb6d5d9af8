"""The schema: every block of settings, as a frozen dataclass whose fields carry type, range, unit and one line of
documentation.

One table with many readers: the checker takes types, ranges and defaults from it, the reference page and
`drmasc explain SETTING` their text, the graph's JSON its keys, and the runtime reads the very instances
(`system.agents["Solver"].sampling.temperature`). What the compiler fills in, and no user writes, is marked
`computed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Facts:
    """What the schema says of one setting.

    `type` is one of: int, float, bool, string, expr (an expression over the task), text (a prompt), ref:model,
    enum, block, call:KIND (a call of a function of that kind, see `semantics.functions`), list:TYPE, datasets (one
    dataset or a block of named ones). A type may end in `?`: then `none` is a value. `low` and `high` are inclusive
    unless `above` says that `low` itself is excluded.
    """

    doc: str
    type: str
    low: float | None = None
    high: float | None = None
    above: bool = False
    choices: tuple[str, ...] = ()
    unit: str = ""
    required: bool = False
    computed: bool = False
    length: int = 0  # of a list, where it is fixed
    scope: str = ""  # "policy": belongs to a policy; "training": means nothing for what is frozen


def setting(doc: str, type: str, default: Any = None, **facts: Any) -> Any:
    """A dataclass field with its facts; a mutable default is copied for every instance."""
    metadata = {"facts": Facts(doc, type, **facts)}
    if isinstance(default, (dict, list)) or callable(default):
        factory = default if callable(default) else default.copy
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def computed(doc: str, default: Any = None) -> Any:
    """A field that the compiler fills in."""
    return setting(doc, "computed", default, computed=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the language with all of its arguments bound by name, defaults included. A path among them
    stands as `{"path": "relative/to/the/base"}`; see `graph.json`."""

    function: str
    args: Mapping[str, Any] = field(default_factory=dict)


# An expression of the graph is plain JSON with a `kind`; `graph.expressions` lists the forms.
Expression = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an agent samples."""

    temperature: float = setting("Softmax temperature; 0 takes the likeliest token.", "float", 1.0, low=0, high=10)
    top_p: float = setting(
        "Nucleus sampling: the smallest set with this probability.", "float", 1.0, low=0, high=1, above=True
    )
    top_k: int = setting("Only the k likeliest tokens; 0 for all.", "int", 0, low=0)
    min_p: float = setting(
        "Drop tokens below this share of the likeliest one's probability.", "float", 0.0, low=0, high=1
    )
    max_tokens: int = setting("Longest response.", "int", 512, low=1, unit="tokens")
    stop: tuple[str, ...] = setting("Texts that end a response (they stay part of it).", "list:string", ())


@dataclass(frozen=True, slots=True)
class Loss:
    """An agent's part of the loss; `none` takes the algorithm's value."""

    clip_low: float | None = setting(
        "Lower clip distance of the ratio.", "float?", None, low=0, high=1, scope="training"
    )
    clip_high: float | None = setting("Upper clip distance of the ratio.", "float?", None, low=0, scope="training")
    kl: float | None = setting("Coefficient of the KL to the frozen start.", "float?", None, low=0, scope="training")
    entropy: float | None = setting("Coefficient of the entropy bonus.", "float?", None, low=0, scope="training")
    weight: float = setting("Scales this agent's share of the loss.", "float", 1.0, low=0, scope="training")


@dataclass(frozen=True, slots=True)
class Optimizer:
    """AdamW for one policy."""

    lr: float = setting("Learning rate at its peak.", "float", 1e-6, low=0, above=True, scope="policy")
    betas: tuple[float, float] = setting(
        "Decay rates of the moments.", "list:float", (0.9, 0.999), low=0, high=1, length=2, scope="policy"
    )
    weight_decay: float = setting("Decoupled weight decay.", "float", 0.0, low=0, scope="policy")
    warmup: int = setting("Updates of linear warm-up from 0.", "int", 0, low=0, unit="updates", scope="policy")
    schedule: str = setting(
        "Learning rate after the warm-up.", "enum", "constant", choices=("constant", "linear", "cosine"), scope="policy"
    )
    grad_clip: float | None = setting(
        "Largest gradient norm; `none` for no clipping.", "float?", 1.0, low=0, above=True, scope="policy"
    )


@dataclass(frozen=True, slots=True)
class Chat:
    """How a rendered prompt becomes the model's input."""

    system: str | None = setting("System message before the prompt.", "string?", None)
    template: str | None = setting("Chat template in place of the tokenizer's.", "string?", None)
    enable_thinking: bool | None = setting("Passed to the chat template where given.", "bool?", None)


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters (`sharing = adapter`)."""

    rank: int = setting("Rank of the update.", "int", 16, low=1, scope="policy")
    alpha: float = setting("Scale: the update counts alpha / rank.", "float", 32.0, low=0, above=True, scope="policy")
    targets: tuple[str, ...] = setting(
        "Modules to adapt; `[]` for all linear layers.", "list:string", (), scope="policy"
    )


@dataclass(frozen=True, slots=True)
class Learner:
    """How the learner of a policy uses its devices. What it computes does not depend on it."""

    ranks: int = setting("Processes that shard it (FSDP2).", "int", 1, low=1, scope="policy")
    checkpointing: bool = setting(
        "Compute activations again in the backward pass: less memory, more time.", "bool", False, scope="policy"
    )
    offload: bool = setting(
        "Weights and optimiser wait in the CPU's memory between updates.", "bool", False, scope="policy"
    )


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of a model's tokens, for the table of `drmasc eval`."""

    prompt: float = setting("Price of a million prompt tokens.", "float", 0.0, low=0)
    response: float = setting("Price of a million response tokens.", "float", 0.0, low=0)


AGGREGATES = ("token_mean", "sequence_mean_token_sum", "sequence_mean_token_mean")


@dataclass(frozen=True, slots=True)
class Model:
    """`model name { … }`: weights, and who serves and shares them. The settings of a policy stand here for every
    agent that names the model.

    A `Policy` has what became of them."""

    name: str = computed("Its name.", "")
    weights: Any = setting(
        "A hub id, a local folder, `gguf(…)` or `tiny(…)`; not for a remote engine.", "call:weights", None
    )
    sharing: str = setting(
        "full: one set of weights for all its agents; none: a copy each; adapter: a LoRA each over one frozen base.",
        "enum",
        "full",
        choices=("full", "none", "adapter"),
    )
    engine: Call = setting("Who generates: `hf()`, `vllm(…)`, `openai(…)`.", "call:engine", lambda: Call("hf"))
    context: int | None = setting(
        "Longest prompt and response together; `none` takes the model's own.", "int?", None, low=1, unit="tokens"
    )
    dtype: str = setting(
        "Number format of engines and of the learners' forward passes; what learners keep, and checkpoints, is float32.",
        "enum",
        "float32",
        choices=("float32", "bfloat16"),
    )
    frozen: bool = setting("Acts and is not trained.", "bool", False)
    chat: Chat = setting("Chat format.", "block", Chat)
    optimizer: Optimizer = setting("Optimiser of its policies.", "block", Optimizer, scope="policy")
    aggregate: str = setting(
        "How token losses become one loss.", "enum", "token_mean", choices=AGGREGATES, scope="policy"
    )
    micro_tokens: int = setting(
        "Tokens of one forward pass of the learner.", "int", 16384, low=1, unit="tokens", scope="policy"
    )
    learner: Learner = setting("Devices of the learners of its policies.", "block", Learner, scope="policy")
    lora: Lora = setting("Adapters, with `sharing = adapter`.", "block", Lora, scope="policy")
    price: Price = setting("Cost of its tokens.", "block", Price)


@dataclass(frozen=True, slots=True)
class Output:
    """`output name = parser(…)`. `type` is string, float, bool or json; `choices` are those of `choice(…)`."""

    name: str
    parser: Call
    type: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """`agent Name { … }`, also `role name { … }`, which an agent takes over by `agent Name : name { … }`.

    Here as it is after inheritance; `policy` names the weights that act."""

    name: str = computed("Its name.", "")
    role: str = setting("Who the agent is; `{{ role }}` in the prompt.", "string", "")
    model: str = setting("The model that it runs on.", "ref:model", "", required=True)
    policy: str = computed("The policy that acts: the model's name where shared in full, else the agent's.", "")
    prompt: str = setting("Jinja2 template of the prompt, or `file(…)`.", "text", "", required=True)
    outputs: tuple[Output, ...] = computed("Its outputs, in order.", ())
    sampling: Sampling = setting("How it samples.", "block", Sampling)
    loss: Loss = setting("Its part of the loss.", "block", Loss, scope="training")
    penalty: float = setting(
        "Taken from the score of a turn whose outputs did not parse.", "float", 0.0, low=0, scope="training"
    )
    frozen: bool = setting("Acts and is not trained.", "bool", False)
    chat: Chat = setting("Chat format, over the model's.", "block", Chat)
    # Settings of its policy, where it owns one; the compiled values stand in `Policy`.
    optimizer: Optimizer = setting("Optimiser, over the model's.", "block", Optimizer, scope="policy")
    aggregate: str = setting(
        "How token losses become one loss, over the model's.", "enum", "token_mean", choices=AGGREGATES, scope="policy"
    )
    micro_tokens: int = setting(
        "Tokens of one forward pass, over the model's.", "int", 16384, low=1, unit="tokens", scope="policy"
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """One set of trained weights: a model, or one agent's copy or adapter of it. Made by the compiler."""

    name: str
    model: str
    agents: tuple[str, ...]
    frozen: bool
    optimizer: Optimizer
    aggregate: str
    micro_tokens: int
    lora: Lora | None  # only with `sharing = adapter`


@dataclass(frozen=True, slots=True)
class Task:
    """`task { … }`: the questions and what counts as good."""

    train: Call | None = setting("Questions to train on.", "call:dataset", None)
    test: Mapping[str, Call] = setting(
        "Questions to evaluate on: one dataset, or a block of named ones.", "datasets", {}
    )
    reward: Expression | None = setting("Reward of a trajectory.", "expr", None, required=True)
    agent_rewards: Mapping[str, Expression] = computed("`reward Agent = …`.", {})
    success: Expression | None = setting("When a trajectory counts as solved in evaluation.", "expr", None)


@dataclass(frozen=True, slots=True)
class Train:
    """`train { … }`: the outer loop."""

    algorithm: Call = setting("Preset of advantages and loss.", "call:algorithm", lambda: Call("grpo"))
    normalize: Call = setting(
        "Whose mean and deviation centre the advantages: agent, agent_mean, agent_std, turn, trajectory or stats(…).",
        "call:normalize",
        lambda: Call("agent"),
    )
    lone: str = setting(
        "A turn alone in its statistics: raw keeps its score, drop gives 0.", "enum", "raw", choices=("raw", "drop")
    )
    group_size: int = setting("Trajectories of one question.", "int", 8, low=1)
    batch_size: int = setting("Questions of one step.", "int", 32, low=1)
    steps: int = setting("Steps: one rollout and its updates each.", "int", 100, low=1)
    mini_updates: int = setting("Optimiser updates of one rollout.", "int", 1, low=1)
    tis: float | None = setting(
        "Cap of the truncated importance weight; `none` for no correction.", "float?", 2.0, low=0, above=True
    )
    truncated: str = setting(
        "Turns cut at max_tokens: keep trains them, mask does not.", "enum", "keep", choices=("keep", "mask")
    )
    staleness: int = setting("Versions that a rollout may lag behind.", "int", 0, low=0, high=1)
    trajectory_timeout: float | None = setting(
        "Longest trajectory, which fails after it; `none` for no limit.", "float?", None, low=0, above=True, unit="s"
    )
    agent_norms: bool = setting(
        "Measure every agent's own gradient norm also where agents share weights (a backward pass each).", "bool", False
    )
    max_bad_updates: int = setting("Skipped updates in a row that end the run.", "int", 3, low=1)
    seed: int = setting("Seed of everything random.", "int", 0, low=0)
    eval_every: int = setting("Steps between evaluations; 0 for none.", "int", 0, low=0)
    save_every: int = setting("Steps between checkpoints besides the last; 0 for none.", "int", 0, low=0)


@dataclass(frozen=True, slots=True)
class Eval:
    """`eval { … }`: how a system is measured, by `drmasc eval` and at every `train.eval_every` steps."""

    samples: int = setting("Trajectories of one question.", "int", 1, low=1)
    k: tuple[int, ...] = setting("Which avg@k and pass@k to report.", "list:int", (1,), low=1)
    temperature: float | None = setting("In place of the agents'; `none` keeps theirs.", "float?", None, low=0, high=10)
    top_p: float | None = setting(
        "In place of the agents'; `none` keeps theirs.", "float?", None, low=0, high=1, above=True
    )
    limit: int | None = setting("Only the first questions of each dataset.", "int?", None, low=1)
    split: str | None = setting(
        "Column whose values get results of their own, where a dataset has several; `none` for none.",
        "string?",
        "data_source",
    )


@dataclass(frozen=True, slots=True)
class Pool:
    """`pool name { … }` in `resources`: devices, and the models that live there."""

    name: str = computed("Its name.", "")
    gpus: int = setting("GPUs of the pool.", "int", 0, low=0)
    cpus: int | None = setting("CPU cores of the pool; `none` for what is there.", "int?", None, low=1)
    memory: float | None = setting("Memory of each GPU.", "float?", None, low=0, above=True, unit="GiB")
    models: tuple[str, ...] = setting("Models that live here; `[]` for all without a pool.", "list:ref:model", ())


@dataclass(frozen=True, slots=True)
class Tool:
    """`tool name = function(…)`."""

    name: str
    call: Call


@dataclass(frozen=True, slots=True)
class System:
    """A checked system: all that the graph's nodes and edges refer to.

    `base` is the absolute folder that relative paths start from; it is not part of the JSON. `plugins` are the
    Python files that `use` names, as path values.
    """

    name: str
    description: str
    params: Mapping[str, Any]
    models: Mapping[str, Model]
    policies: Mapping[str, Policy]
    agents: Mapping[str, Agent]
    tools: Mapping[str, Tool]
    task: Task
    train: Train
    eval: Eval
    pools: Mapping[str, Pool]
    plugins: tuple[Any, ...] = ()
    base: str = ""


BLOCKS: dict[str, type] = {
    "model": Model,
    "agent": Agent,
    "role": Agent,
    "task": Task,
    "train": Train,
    "eval": Eval,
    "pool": Pool,
    "sampling": Sampling,
    "loss": Loss,
    "optimizer": Optimizer,
    "chat": Chat,
    "learner": Learner,
    "lora": Lora,
    "price": Price,
}
