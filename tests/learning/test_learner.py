"""The learner: cutting changes nothing, settings act where they should, and what goes wrong is named."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Loss, Optimizer
from runtime.learning.learner import Learner
from runtime.learning.updates import BadUpdates
from runtime.models import load_model
from tests.learning.turns import MODEL, make_learner, make_turn, make_turns


def gradient(learner: Learner, turns) -> torch.Tensor:
    """The gradient of a mini-batch of all turns, flat."""
    learner._gradient([(turn, None) for turn in turns], False)
    return torch.cat([parameter.grad.flatten() for parameter in learner.parameters])


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([value.flatten() for value in learner.weights().values()])


# Cutting.


@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean_token_sum", "sequence_mean_token_mean"])
def test_micro_batches_change_nothing(aggregate):
    turns = make_turns(14)
    call = Call("grpo", {"entropy": 0.01, "kl": 0.1})
    whole = gradient(make_learner(call, aggregate=aggregate, micro_tokens=10_000), turns)
    assert whole.norm() > 0.1
    for budget in (1, 40, 77, 200):
        part = gradient(make_learner(call, aggregate=aggregate, micro_tokens=budget), turns)
        torch.testing.assert_close(part, whole, atol=1e-5, rtol=1e-5)


REGULARIZED = {"nothing": {}, "a KL": {"kl": 0.1}, "an entropy bonus": {"entropy": 0.01}}


@pytest.mark.parametrize("more", REGULARIZED.values(), ids=REGULARIZED)
@pytest.mark.parametrize("kept", [0.5, 0.0], ids=["some", "none"])
def test_turns_without_a_gradient_are_only_read(more, kept, monkeypatch):
    """They change neither updates nor figures, and nothing goes backward for them."""
    turns = [
        dataclasses.replace(turn, advantage=turn.advantage * (place < kept * 10))
        for place, turn in enumerate(make_turns(10))
    ]
    backward = count_backward(monkeypatch)
    call = Call("grpo", more)
    short, full = make_learner(call, mini_updates=2, micro_tokens=1), make_learner(call, mini_updates=2, micro_tokens=1)
    short.update(make_turns())  # Adam then has a momentum, which moves weights without a gradient too
    full.update(make_turns())
    backward.clear()
    first = short.update(turns)
    assert len(backward) == (10 if more else kept * 10)
    monkeypatch.setattr(full.objective, "has_gradient", lambda _: True)
    second = full.update(turns)
    torch.testing.assert_close(weights(short), weights(full), atol=1e-6, rtol=1e-5)
    for name, value in dataclasses.asdict(first).items():
        if isinstance(value, float):
            assert value == pytest.approx(getattr(second, name), rel=1e-4, abs=1e-6, nan_ok=True), name


def count_backward(monkeypatch) -> list[torch.Tensor]:
    """The losses that go backward, from now on."""
    seen: list[torch.Tensor] = []
    real = torch.autograd.backward

    def counted(tensors, *args, **options):
        if not tensors.dim():  # and no hidden states
            seen.append(tensors)
        real(tensors, *args, **options)

    monkeypatch.setattr(torch.autograd, "backward", counted)
    return seen


def test_the_order_of_turns_changes_no_gradient():
    turns = make_turns()
    torch.testing.assert_close(
        gradient(make_learner(), turns[::-1]), gradient(make_learner(), turns), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("mini_updates", [1, 3])
def test_the_same_turns_give_the_same_bits(mini_updates):
    one, two = make_learner(mini_updates=mini_updates), make_learner(mini_updates=mini_updates)
    for _ in range(2):
        first, second = one.update(make_turns()), two.update(make_turns())
    assert torch.equal(weights(one), weights(two))
    assert repr(first) == repr(second)


def test_mini_updates_take_every_turn_once_and_the_seed_cuts_them():
    metrics = make_learner(mini_updates=4).update(make_turns(10))
    assert (metrics.turns, metrics.updates, metrics.weights_version) == (10, 4, 1)
    one, two = make_learner(mini_updates=4), make_learner(mini_updates=4, seed=1)
    one.update(make_turns())
    two.update(make_turns())
    assert not torch.equal(weights(one), weights(two))
    assert make_learner(mini_updates=4).update(make_turns(2)).updates == 2  # nothing is duplicated to fill up


def test_logprobs_are_those_of_single_sequences():
    turns = make_turns()
    learner = make_learner(micro_tokens=90)
    model = load_model(MODEL, ".")
    for turn, values in zip(turns, learner.logprobs(turns), strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*turn.prompt_ids, *turn.response_ids]])).logits[0]
        logits = logits[len(turn.prompt_ids) - 1 : -1] / turn.temperature
        expected = logits.log_softmax(-1)[range(len(turn.response_ids)), list(turn.response_ids)]
        torch.testing.assert_close(values, expected, atol=1e-4, rtol=1e-5)


# Settings.


def test_nothing_to_train_changes_nothing():
    learner = make_learner(frozen=("Solver",), truncated="mask")
    before = weights(learner)
    turns = [
        make_turn(prompt=3, response=4, seed=0, agent="Solver"),
        make_turn(prompt=3, response=4, seed=1, agent="Verifier", truncated=True),
        make_turn(prompt=3, response=0, seed=2, agent="Verifier"),
    ]
    metrics = learner.update(turns)
    assert (metrics.updates, metrics.weights_version) == (0, 0)
    assert math.isnan(metrics.loss)
    assert torch.equal(weights(learner), before)
    assert not learner.optimizer.state


def test_truncated_turns_are_trained_unless_masked():
    turns = make_turns(6)
    cut = [dataclasses.replace(turns[0], truncated=True), *turns[1:]]
    torch.testing.assert_close(gradient(make_learner(), cut), gradient(make_learner(), turns))
    assert make_learner(truncated="keep").update(cut).turns == 6
    assert make_learner(truncated="mask").update(cut).turns == 5


OWN = {
    "clip_low": Loss(clip_low=0.0),
    "clip_high": Loss(clip_high=0.0),
    "kl": Loss(kl=1.0),
    "entropy": Loss(entropy=1.0),
    "weight": Loss(weight=3.0),
}


@pytest.mark.parametrize("name", OWN)
def test_an_agents_loss_settings_act_on_its_own_turns_only(name):
    """Agents share the weights, and yet only the Solver's tokens see the Solver's settings."""

    def gradients(agent: str, loss: dict[str, Loss]) -> torch.Tensor:
        learner = make_learner(loss=loss)
        turns = make_turns()
        old = learner.logprobs(turns)
        # Move off the old policy and off the reference, so that clips and KL have something to do.
        with torch.no_grad():
            for parameter in learner.parameters:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
        pairs = [(turn, values) for turn, values in zip(turns, old, strict=True) if turn.agent == agent]
        learner._gradient(pairs, False)
        return torch.cat([parameter.grad.flatten() for parameter in learner.parameters])

    own = {"Solver": OWN[name]}
    assert (gradients("Solver", own) - gradients("Solver", {})).norm() > 1e-3
    torch.testing.assert_close(gradients("Verifier", own), gradients("Verifier", {}))


def test_an_agents_none_takes_the_algorithms_value():
    turns = make_turns()
    by_algorithm = make_learner(Call("grpo", {"entropy": 0.1}))
    by_agents = make_learner(loss=dict.fromkeys(("Solver", "Verifier"), Loss(entropy=0.1)))
    torch.testing.assert_close(gradient(by_algorithm, turns), gradient(by_agents, turns))


@pytest.mark.parametrize(("tis", "same"), [(2.0, False), (None, True)])
def test_tis_is_off_with_none(tis, same):
    turns = make_turns()
    exact = [
        dataclasses.replace(turn, logprobs=tuple(values.tolist()))
        for turn, values in zip(turns, make_learner().logprobs(turns), strict=True)
    ]
    one, two = gradient(make_learner(tis=tis), turns), gradient(make_learner(tis=tis), exact)
    assert torch.allclose(one, two, atol=1e-6) == same


def test_the_reference_is_kept_only_for_a_kl():
    for learner, kept in ((make_learner(), False), (make_learner(loss={"Verifier": Loss(kl=0.1)}), True)):
        with learner.trained.start() as start:
            assert (start is not None) == kept
    assert math.isnan(make_learner().update(make_turns()).kl)
    learner = make_learner(Call("grpo", {"kl": 0.1}))
    assert learner.update(make_turns()).kl == 0.0
    assert learner.update(make_turns()).kl != 0.0


def test_grad_norm_is_measured_before_clipping_and_none_clips_nothing():
    turns = [dataclasses.replace(turn, advantage=100 * (turn.advantage or 0.0)) for turn in make_turns()]
    clipped = make_learner(optimizer=Optimizer(lr=1e-3, grad_clip=0.5))
    free = make_learner(optimizer=Optimizer(lr=1e-3, grad_clip=None))
    one, two = clipped.update(turns), free.update(turns)
    assert one.grad_norm == pytest.approx(two.grad_norm)
    assert one.grad_norm > 10
    moment = torch.cat([state["exp_avg"].flatten() for state in clipped.optimizer.state.values()]).norm()
    assert float(moment) == pytest.approx(0.1 * 0.5, rel=1e-3)


def test_agents_gradients_add_up_also_where_weights_are_shared():
    turns = make_turns()
    both = make_learner().update(turns, agent_norms=True)
    plain = make_learner().update(turns)
    assert both.grad_norm == pytest.approx(plain.grad_norm, rel=1e-5)
    assert plain.agent_grad_norm == {}
    solver = gradient(make_learner(loss={"Verifier": Loss(weight=0.0)}), turns)
    verifier = gradient(make_learner(loss={"Solver": Loss(weight=0.0)}), turns)
    assert both.agent_grad_norm["Solver"] == pytest.approx(float(solver.norm()), rel=1e-4)
    assert both.agent_grad_norm["Verifier"] == pytest.approx(float(verifier.norm()), rel=1e-4)
    torch.testing.assert_close(solver + verifier, gradient(make_learner(), turns), atol=1e-5, rtol=1e-5)


def test_metrics_of_an_update():
    turns = make_turns()
    learner = make_learner()
    logprobs = learner.logprobs(turns)
    gaps = torch.cat(
        [(values - torch.tensor(turn.logprobs)).abs() for turn, values in zip(turns, logprobs, strict=True)]
    )
    metrics = learner.update(turns)
    assert metrics.engine_logp_gap_mean == pytest.approx(float(gaps.mean()), rel=1e-4)
    assert metrics.engine_logp_gap_max == pytest.approx(float(gaps.max()), rel=1e-4)
    assert 0 < metrics.entropy < math.log(258)
    assert (metrics.lr, metrics.clip_share, metrics.weights_version) == (1e-3, 0.0, 1)


def test_training_raises_what_has_an_advantage():
    turns = [make_turn(prompt=5, response=6, seed=i, advantage=1.0 if i % 2 else -1.0) for i in range(6)]
    learner = make_learner(tis=None)
    before = [float(values.sum()) for values in learner.logprobs(turns)]
    for _ in range(5):
        learner.update(turns)
    after = [float(values.sum()) for values in learner.logprobs(turns)]
    for i, (low, high) in enumerate(zip(before, after, strict=True)):
        assert (high > low) == bool(i % 2)


# What goes wrong.


def test_a_bad_turn_is_skipped_counted_and_named():
    turns = make_turns(6)
    bad = [*turns[:2], dataclasses.replace(turns[2], advantage=math.nan), *turns[3:]]
    learner = make_learner(max_bad_updates=2)
    before = weights(learner)
    metrics = learner.update(bad)
    assert (metrics.updates, metrics.skipped, metrics.weights_version) == (0, 1, 0)
    assert metrics.bad == ("Solver in step 1, trajectory t2, turn 0",)
    assert torch.equal(weights(learner), before)
    assert learner.update(turns).updates == 1  # one good update starts the count again
    learner.update(bad)
    with pytest.raises(BadUpdates, match=r"2 updates in a row of policy policy .* trajectory t2"):
        learner.update(bad)


def test_a_gradient_that_overflows_is_traced_to_its_turn():
    turns = make_turns(4)
    learner = make_learner()
    turns[1] = dataclasses.replace(turns[1], advantage=3e38)  # a loss that is finite, and a gradient that is not
    metrics = learner.update(turns)
    assert metrics.skipped == 1
    assert metrics.bad == ("Verifier in step 1, trajectory t1, turn 0",)
    assert torch.isfinite(weights(learner)).all()


def test_weights_are_copies():
    learner = make_learner()
    before = learner.weights()
    kept = {name: value.clone() for name, value in before.items()}
    learner.update(make_turns())
    assert all(torch.equal(before[name], kept[name]) for name in kept)


def test_bfloat16_models_keep_their_weights_in_float32():
    learner = make_learner(model=dataclasses.replace(MODEL, dtype="bfloat16"), optimizer=Optimizer(lr=1e-6))
    before = torch.cat([parameter.detach().flatten().clone() for parameter in learner.parameters])
    metrics = learner.update(make_turns())
    after = torch.cat([parameter.detach().flatten() for parameter in learner.parameters])
    assert before.dtype == torch.float32
    assert (after != before).float().mean() > 0.9  # a step of 1e-6 vanishes in bfloat16
    assert {value.dtype for value in learner.weights().values()} == {torch.bfloat16}
    assert metrics.grad_norm > 0


def test_saving_and_loading_goes_on_bit_for_bit(tmp_path):
    learner = make_learner(Call("grpo", {"kl": 0.1}), mini_updates=2, optimizer=Optimizer(lr=1e-3, schedule="linear"))
    learner.update(make_turns())
    learner.save(tmp_path)
    assert {"config.json", "model.safetensors", "tokenizer.json", "learner.pt"} <= {p.name for p in tmp_path.iterdir()}
    other = make_learner(Call("grpo", {"kl": 0.1}), mini_updates=2, optimizer=Optimizer(lr=1e-3, schedule="linear"))
    other.load(tmp_path)
    assert repr(learner.update(make_turns())) == repr(other.update(make_turns()))
    assert torch.equal(weights(learner), weights(other))
    assert other.version == 2


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"PK\x03\x04"])
@pytest.mark.parametrize("file", ["model.safetensors", "learner.pt"])
def test_loading_a_broken_checkpoint_is_an_error(tmp_path, file, content):
    learner = make_learner()
    learner.save(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match="no checkpoint of policy policy"):
        make_learner().load(tmp_path)


def test_loading_what_is_no_checkpoint_is_an_error(tmp_path):
    learner = make_learner()
    with pytest.raises(UserError, match="no checkpoint of policy policy"):
        learner.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="no checkpoint"):
        learner.load(tmp_path)


def test_a_checkpoint_goes_on_with_the_settings_of_now(tmp_path):
    make_learner(optimizer=Optimizer(lr=1e-3, weight_decay=0.5)).save(tmp_path)
    learner = make_learner(optimizer=Optimizer(lr=2e-3, weight_decay=0.0, betas=(0.5, 0.9)))
    learner.load(tmp_path)
    (group,) = learner.optimizer.param_groups
    assert (group["lr"], group["weight_decay"], tuple(group["betas"])) == (2e-3, 0.0, (0.5, 0.9))


def test_an_update_that_is_one_too_many_still_counts_those_before_it():
    turns = [*make_turns(9), make_turn(prompt=4, response=4, seed=9, advantage=math.inf)]
    learner = make_learner(mini_updates=2, max_bad_updates=1)
    with pytest.raises(BadUpdates):
        learner.update(turns)
    assert learner.version == (learner.updates > 0)
