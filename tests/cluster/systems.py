"""Systems of tiny models for tests of the cluster, made without the compiler."""

from drmas_dsl.graph import settings as schema
from drmas_dsl.graph.expressions import const
from tests.engines.tiny import model


def system(agents=("Solver", "Verifier"), models=None, sharing="none", frozen=(), pools=()):
    """Every agent on the first model, with a policy of its own unless `sharing` is full."""
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
