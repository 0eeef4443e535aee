"""Random arrays: numbers by place, and the distributions that they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as stats

import flagstone as fl
from flagstone.random import default_rng

N = 200_000
#: A test of a right distribution fails once in 10^6 draws; the seed is fixed, so it does not.
SURE = 1e-6


def calls(rng, size):
    """A call of every method."""
    return [
        rng.random(size), rng.random(size, "f4"), rng.uniform(-3, 5, size), rng.standard_normal(size),
        rng.standard_normal(size, "f4"), rng.normal(2, 3, size), rng.exponential(2, size),
        rng.poisson(3.5, size), rng.poisson(250, size), rng.integers(7, size=size),
        rng.integers(-3, 3, size, "i1", True), rng.choice(9, size), rng.choice(3, size, p=[0.5, 0.2, 0.3]),
        rng.choice(10**9, size, replace=False),
    ]  # fmt: skip


CONTINUOUS = {
    "random": (lambda rng: rng.random(N), stats.uniform()),
    "random float32": (lambda rng: rng.random(N, "f4"), stats.uniform()),
    "uniform": (lambda rng: rng.uniform(-2, 5, N), stats.uniform(-2, 7)),
    "standard_normal": (lambda rng: rng.standard_normal(N), stats.norm()),
    "standard_normal float32": (lambda rng: rng.standard_normal(N, "f4"), stats.norm()),
    "normal": (lambda rng: rng.normal(3, 0.5, N), stats.norm(3, 0.5)),
    "exponential": (lambda rng: rng.exponential(4, N), stats.expon(scale=4)),
}
DISCRETE = {
    "integers": (lambda rng: rng.integers(-4, 9, N), -4, np.full(13, 1 / 13)),
    "poisson 3": (lambda rng: rng.poisson(3, N), 0, stats.poisson(3).pmf(np.arange(40))),
    "poisson 40": (lambda rng: rng.poisson(40, N), 0, stats.poisson(40).pmf(np.arange(120))),
    "choice": (lambda rng: rng.choice(4, N, p=[0.1, 0, 0.6, 0.3]), 0, np.array([0.1, 0, 0.6, 0.3])),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_numbers_follow_their_distribution(name):
    draw, wanted = CONTINUOUS[name]
    x = np.asarray(draw(default_rng(11))).astype("f8")
    assert stats.kstest(x, wanted.cdf).pvalue > SURE
    for moment in (1, 2, 3, 4):  # within 5 standard errors
        mean, second = wanted.moment(moment), wanted.moment(2 * moment)
        assert abs((x**moment).mean() - mean) < 5 * np.sqrt((second - mean**2) / N), moment
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 5 / np.sqrt(N)


def test_tails_are_there():
    """Beyond where the ziggurat's layers end (3.65; 7.70), as many as there should be."""
    x = np.abs(np.asarray(default_rng(5).standard_normal(4_000_000)))
    expected = 4_000_000 * 2 * stats.norm.sf(3.7)
    assert abs((x > 3.7).sum() - expected) < 5 * np.sqrt(expected)
    y = np.asarray(default_rng(5).exponential(1, 4_000_000))
    expected = 4_000_000 * np.exp(-7.8)
    assert abs((y > 7.8).sum() - expected) < 5 * np.sqrt(expected)


@pytest.mark.parametrize("name", DISCRETE)
def test_whole_numbers_come_as_often_as_they_should(name):
    draw, first, wanted = DISCRETE[name]
    found = np.bincount(np.asarray(draw(default_rng(12))) - first, minlength=len(wanted))[: len(wanted)]
    often = wanted * N >= 5
    assert found[wanted == 0].sum() == 0
    expected = np.append(wanted[often] * N, max(N - wanted[often].sum() * N, 1e-9))
    counted = np.append(found[often], N - found[often].sum())
    kept = expected > 1
    statistic = ((counted - expected)[kept] ** 2 / expected[kept]).sum()
    assert stats.chi2.sf(statistic, kept.sum() - 1) > SURE


def test_integers_of_wide_ranges():
    x = np.asarray(default_rng(1).integers(-(1 << 63), (1 << 63) - 1, N, endpoint=True))
    assert stats.kstest(x.astype("f8") / 2.0**64 + 0.5, "uniform").pvalue > SURE
    top = np.asarray(default_rng(1).integers(1 << 63, 1 << 64, N, "u8"))
    assert top.min() >= 1 << 63
    odd = (1 << 63) + 1  # half of the words are rejected
    x = np.asarray(default_rng(2).integers(0, odd, N, "u8"))
    assert stats.kstest(x.astype("f8") / odd, "uniform").pvalue > SURE


@pytest.mark.parametrize("n", [0, 1, 2, 10, 4096, 4097, 70_000])
def test_a_permutation_has_every_number_once(n):
    x = np.asarray(default_rng(3).permutation(n))
    assert x.dtype == np.int64
    np.testing.assert_array_equal(np.sort(x), np.arange(n))
    if n > 100:
        assert abs(np.corrcoef(x, np.arange(n))[0, 1]) < 5 / np.sqrt(n)
        assert (x == np.arange(n)).sum() < 12  # of a random one: 1 on average


def test_small_permutations_are_uniform():
    out, rng = np.empty(3, np.int64), default_rng(7)
    orders = [tuple(rng.permutation(3, out=out).tolist()) for _ in range(300)]
    counts = np.array([orders.count(order) for order in set(orders)])
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > SURE


def test_no_number_depends_on_chunks_limit_or_workers(isolated):
    found = [
        isolated(
            """
            from tests.along.test_random import calls
            with fl.Runtime(workers=workers, memory=fl._core.resident_bytes() + (60 << 20)):
                rng = fl.random.default_rng(8)
                made = calls(rng, (700, 900))
                out = fl.create("own.zarr", (700, 900), "f8", chunks=chunks, overwrite=True)
                rng.standard_normal(out=out)
            import hashlib
            result = [hashlib.sha256(np.asarray(x).tobytes()).hexdigest() for x in [*made, out]]
            """,
            workers=workers,
            chunks=chunks,
        )
        for workers, chunks in ((1, [64, 900]), (3, [300, 77]))
    ]
    assert found[0] == found[1]


def test_a_number_is_a_function_of_its_place():
    whole = np.asarray(default_rng(4).standard_normal((50, 30))).ravel()
    for size in (1500, (25, 60), 700, (3, 5, 7)):
        part = np.asarray(default_rng(4).standard_normal(size)).ravel()
        np.testing.assert_array_equal(part, whole[: part.size])


def test_calls_and_seeds_give_other_numbers():
    rng = default_rng(4)
    one, other = np.asarray(rng.random(1000)), np.asarray(rng.random(1000))
    again = np.asarray(default_rng(4).random(1000))
    np.testing.assert_array_equal(one, again)
    for x in (other, np.asarray(default_rng(5).random(1000)), np.asarray(default_rng().random(1000))):
        assert abs(np.corrcoef(one, x)[0, 1]) < 5 / np.sqrt(1000)
        assert not np.isin(one, x).any()


def test_a_failed_call_and_a_plan_draw_nothing(tmp_path):
    rng = default_rng(4)
    plan = rng.random.plan((1000, 100), out=tmp_path / "x.zarr")
    assert plan.bytes_read == 0
    with pytest.raises(fl.BudgetError):
        rng.random((1000, 100), memory="1MiB")
    made = rng.random((1000, 100), out=tmp_path / "x.zarr")
    assert fl.stats().bytes_written == plan.bytes_written >= made.nbytes
    np.testing.assert_array_equal(made[...], np.asarray(default_rng(4).random((1000, 100))))


def test_one_number_and_places_for_many(tmp_path):
    rng = default_rng(4)
    assert 0 <= rng.random() < 1
    assert isinstance(rng.random(), float)
    out = np.empty((3, 4), "f4")
    assert rng.standard_normal(out=out, dtype="f4") is out
    assert out.std() > 0
    assert rng.random((0, 3)).shape == (0, 3)
    assert rng.normal(0, 1, 5, out=tmp_path / "n.npy").path.endswith("n.npy")
    assert repr(rng).startswith("<flagstone.random.Generator")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda rng: rng.random(-1), "no extent may be below 0"),
        (lambda rng: rng.random(3, "i4"), "float32 or float64 is needed"),
        (lambda rng: rng.normal([1, 2], 1, 2), "one number is needed"),
        (lambda rng: rng.normal(0, -1, 2), "0 or more is needed"),
        (lambda rng: rng.exponential(-1, 2), "0 or more is needed"),
        (lambda rng: rng.poisson(-1, 2), "0 or more is needed"),
        (lambda rng: rng.uniform(0, np.inf, 2), "no finite range"),
        (lambda rng: rng.integers(3, 3, 2), "low must be below high"),
        (lambda rng: rng.integers(0, 300, 2, "u1"), "beyond uint8"),
        (lambda rng: rng.integers(0, 3, 2, "f4"), "an integer is needed"),
        (lambda rng: rng.permutation(np.arange(3)), "fl.take"),
        (lambda rng: rng.choice(3, 4, replace=False), "cannot be different ones"),
        (lambda rng: rng.choice(3, 4, p=[1, 1, 1]), "sum to 1"),
        (lambda rng: rng.choice(3, 4, p=[1]), "3 probabilities are needed"),
        (lambda rng: rng.choice(3, 2, False, [1, 0, 0]), "replace=True"),
        (lambda rng: rng.choice(0, 2), "nothing to choose from"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError, OverflowError), match=sentence):
        call(default_rng(1))
