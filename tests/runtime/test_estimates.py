"""avg@k, pass@k and bootstrap intervals, against counting and known values."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.estimates import avg_at_k, estimate, pass_at_k

samples = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=5), st.integers(1, n)
    )
)


@given(samples)
def test_pass_at_k_is_the_share_of_subsets_with_a_success(case):
    rows, k = case
    expected = [np.mean([any(subset) for subset in combinations(row, k)]) for row in rows]
    assert pass_at_k(np.array(rows, dtype=bool), k) == pytest.approx(expected)


@given(samples)
def test_avg_at_k_is_the_mean_of_the_first_k(case):
    rows, k = case
    assert avg_at_k(np.array(rows, dtype=bool), k) == pytest.approx([np.mean(row[:k]) for row in rows])


def test_more_samples_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="k = 3"):
        pass_at_k(np.zeros((2, 2), dtype=bool), 3)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        result = estimate((rng.random(100) < 0.3).astype(float), seed=trial, resamples=400)
        hits += result.low <= 0.3 <= result.high
    assert 0.88 <= hits / 200 <= 1.0


def test_interval_of_a_constant_is_a_point_and_of_nothing_is_nan():
    result = estimate(np.ones(5))
    assert (result.value, result.low, result.high) == (1, 1, 1)
    assert np.isnan(estimate(np.array([])).value)
