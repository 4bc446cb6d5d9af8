"""What benchmarks read back is what they asked for."""

import json

import pytest

from benchmarks import runs


def test_a_finished_run_with_other_overrides_is_not_taken_for_this_one(tmp_path):
    (tmp_path / "seconds").write_text("2.5")
    (tmp_path / "run.json").write_text(json.dumps({"overrides": ["train.seed=1"]}))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    assert runs.train("lookup", tmp_path, ["train.seed=1"]).figures("reward") == [0.5]
    with pytest.raises(RuntimeError, match="remove it"):
        runs.train("lookup", tmp_path, ["train.seed=2"])


def test_p_values_of_several_tests_are_corrected():
    assert runs.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert runs.holm([0.9, 0.8]) == [1.0, 1.0]
