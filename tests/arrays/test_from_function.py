"""Arrays of functions of indexes: NumPy's fromfunction block by block, with any box, limit and routine."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import flagstone as fl
from tests.support.processes import beside


def wave(i, j):
    return np.sin(0.01 * i) * np.cos(0.02 * j) + i / (1.0 + j)


SHAPES = [(1, 1), (0, 5), (7,), (300, 1), (1, 300), (513, 700), (3, 40, 50), (70_001,)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int16", "bool"])
def test_elements_are_numpys(shape, dtype):
    def function(*index):
        total = sum((d + 2) * i for d, i in enumerate(index))
        return (total % 7 > 3) if dtype == "bool" else (total % 91).astype(dtype)

    a = fl.from_function(function, shape, dtype)
    wanted = np.fromfunction(function, shape, dtype="int64").astype(dtype)
    assert a.shape == shape
    assert a.dtype == dtype
    assert np.array_equal(np.asarray(a), wanted)


def test_index_arrays_broadcast():
    seen = []

    def function(i, j):
        seen.append((i.shape, j.shape, i.dtype.kind, int(i[0, 0]), int(j[0, 0])))
        return i + 0 * j

    np.asarray(fl.from_function(function, (1000, 900), "int64"))
    assert all(a[1] == 1 and b[0] == 1 and kind == "i" for a, b, kind, _, _ in seen)
    assert max(a[0] * b[1] for a, b, *_ in seen) <= 65536
    assert len({place[3:] for place in seen}) == len(seen)


def test_parts_have_the_bits_of_the_whole():
    a = fl.from_function(wave, (1100, 900))
    whole = np.asarray(a)
    for key in [np.s_[3:900:2, 511:], np.s_[1099, 899], np.s_[:, 7], np.s_[257:258]]:
        assert np.asarray(a[key]).tobytes() == whole[key].tobytes()


def test_every_routine_takes_it(tmp_path):
    a = fl.from_function(wave, (1500, 600), key="wave")
    values = np.asarray(a)
    assert np.array_equal(np.asarray(fl.rechunk(a, (100, 600), out=tmp_path / "kept.zarr")), values)
    b = values[:600, :300].copy()
    wanted = None
    for room, workers in ((70, 1), (2048, 3)):
        with fl.Runtime(workers=workers):
            product = np.asarray(fl.matmul(a, b, memory=beside(room)))
        assert wanted is None or product.tobytes() == wanted.tobytes()
        wanted = product
    np.testing.assert_allclose(wanted, values @ b, rtol=1e-11)
    np.testing.assert_allclose(float((a * 2).sum()), 2 * values.sum(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(a.mean(0)), values.mean(0), rtol=1e-12)
    found = fl.pca(a, 2)
    np.testing.assert_allclose(
        found.singular_values, np.linalg.svd(values - values.mean(0))[1][:2], rtol=1e-6
    )


def test_workers_call_it():
    threads = set()

    def function(i, j):
        threads.add(threading.get_ident())
        return i * j

    with fl.Runtime(workers=2):
        float(fl.from_function(function, (2000, 2000)).sum())
    assert threading.get_ident() not in threads


def test_plans_call_nothing():
    def never(i, j):
        raise AssertionError

    plan = fl.matmul.plan(fl.from_function(never, (900, 900)), np.ones((900, 10)))
    assert "begins again" in plan.note
    assert plan.flops >= 2 * 900 * 900 * 10


REFUSED = {
    "no function": (lambda: fl.from_function(3, (2, 2)), TypeError, "a callable is needed"),
    "shape": (lambda: fl.from_function(wave, (2, -1)), fl.ShapeError, "must not be negative"),
    "key": (lambda: fl.from_function(wave, (2, 2), key=7), TypeError, "a text is needed"),
    "dtype": (lambda: fl.from_function(wave, (2, 2), "U3"), TypeError, "choose a number"),
    "no dtype": (lambda: fl.from_function(wave, (2, 2), "foo"), TypeError, "a NumPy dtype is needed"),
    "shape of a block": (
        lambda: np.asarray(fl.from_function(lambda i, j: np.ones(3), (300, 300))),
        fl.ShapeError,
        "returned 3 for a block of",
    ),
    "dtype of a block": (
        lambda: np.asarray(fl.from_function(wave, (9, 9), "int32")),
        TypeError,
        "returned float64 and the array is int32",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refuses(kind):
    call, error, text = REFUSED[kind]
    with pytest.raises(error, match=text) as refused:
        call()
    assert str(refused.value).startswith("from_function: ")
    assert ". " not in str(refused.value)


def test_what_it_raises_leaves_as_itself(tmp_path):
    class Own(Exception):
        pass

    def fails(i, j):
        raise Own("here")

    a = fl.from_function(fails, (700, 700))
    for call in (
        lambda: np.asarray(a),
        lambda: fl.matmul(a, a, out=tmp_path / "c.zarr"),
        lambda: float(a.sum()),
    ):
        with pytest.raises(Own, match="here"):
            call()
    assert not (tmp_path / "c.zarr").exists()
