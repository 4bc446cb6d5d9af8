"""Systems of tiny models for tests of the cluster, made without the compiler, and turns for them."""

import os

from drmas_dsl.graph import settings as schema
from drmas_dsl.graph.expressions import const
from runtime.cluster.failures import received
from runtime.records import Turn
from tests.engines.tiny import model, request


def system(agents=("Solver", "Verifier"), models=None, sharing="none", frozen=(), pools=(), cpus=None):
    """Every agent on the first model, with a policy of its own unless `sharing` is full; `cpus`: of the only pool."""
    pools = pools or ((schema.Pool("main", cpus=cpus),) if cpus else ())
    models = models or {"small": model("small", sharing=sharing)}
    first = next(iter(models))
    groups = {first: agents} if sharing == "full" else {agent: (agent,) for agent in agents}
    policies = {
        name: schema.Policy(name, first, members, name in frozen, schema.Optimizer(lr=1e-2), "token_mean", 4096, None)
        for name, members in groups.items()
    }
    owner = {agent: policy.name for policy in policies.values() for agent in policy.agents}
    return schema.System(
        name="test",
        description="",
        params={},
        models=models,
        policies=policies,
        agents={
            name: schema.Agent(name, "", first, owner[name], "Go.", frozen=owner[name] in frozen) for name in agents
        },
        tools={},
        task=schema.Task(reward=const(1.0)),
        train=schema.Train(
            algorithm=schema.Call(
                "grpo", {"clip": 0.2, "clip_high": None, "kl": 0.0, "kl_estimator": "k3", "entropy": 0.0}
            )
        ),
        eval=schema.Eval(),
        pools={pool.name: pool for pool in pools},
        base="",
    )


def turn(completion, asked, agent, advantage):
    return Turn(
        step=1,
        question="q",
        trajectory="t",
        agent=agent,
        policy=agent,
        index=0,
        prompt_ids=asked.prompt_ids,
        response_ids=completion.response_ids,
        logprobs=completion.logprobs,
        weights_version=completion.weights_version,
        temperature=1.0,
        score=advantage,
        advantage=advantage,
    )


def asked_of(policy, count=6, **sampling):
    """Requests to a policy, one for each seed."""
    return [request(b"what is it", seed, policy=policy, **sampling) for seed in range(count)]


def trained_on(asked, drawn):
    """Turns with advantages of either sign from requests and their completions."""
    return [turn(c, q, q.policy, (-1.0) ** i) for i, (c, q) in enumerate(zip(drawn, asked, strict=True))]


async def pid_of(worker):
    """The process of a worker."""
    return await received(worker.__ray_call__.remote(lambda _: os.getpid()))
