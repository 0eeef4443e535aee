"""Kernel matrices: scikit-learn's formulas, symmetric to the bit, never stored, operands of every routine."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

import flagstone as fl
from tests.support.killed_calls import left_at
from tests.support.processes import beside


def points(n: int, d: int, seed: int = 0, dtype: str = "float64"):
    rng = np.random.default_rng(seed)
    return (5 + rng.standard_normal((n, d))).astype(dtype)


LENGTH = 1.7

KERNELS = {
    "rbf": ({"length_scale": LENGTH}, lambda x, y: gp.RBF(LENGTH)(x, y)),
    "matern12": ({"length_scale": LENGTH}, lambda x, y: gp.Matern(LENGTH, nu=0.5)(x, y)),
    "matern32": ({"length_scale": LENGTH}, lambda x, y: gp.Matern(LENGTH, nu=1.5)(x, y)),
    "matern52": ({"length_scale": LENGTH}, lambda x, y: gp.Matern(LENGTH, nu=2.5)(x, y)),
    "linear": ({}, pairwise.linear_kernel),
    "polynomial": (
        {"gamma": 0.3, "coef0": 0.5, "degree": 2.5},
        lambda x, y: pairwise.polynomial_kernel(abs(x), abs(y), gamma=0.3, coef0=0.5, degree=2.5),
    ),
    "cosine": ({}, pairwise.cosine_similarity),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 3, 32, 33, 100])
def test_values_are_scikit_learns(kernel, dtype, d):
    x, y = points(70, d, 1, dtype), points(51, d, 2, dtype)
    if kernel == "polynomial":
        x, y = abs(x), abs(y)
    options, reference = KERNELS[kernel]
    k = fl.kernel_matrix(x, y, kernel, **options)
    wanted = reference(x.astype("float64"), y.astype("float64"))
    assert k.shape == (70, 51)
    assert k.dtype == dtype
    # Sums of d terms of points of length about 5 sqrt(d), centred where they are subtracted; one rounding at
    # the end.
    eps = np.finfo("float64").eps * 50 * (d + 16) + np.finfo(dtype).eps
    np.testing.assert_allclose(np.asarray(k), wanted, rtol=eps, atol=eps)


def test_parameters_have_scikit_learns_defaults():
    x, y = points(20, 4, 1), points(9, 4, 2)
    for kernel, wanted in {
        "rbf": gp.RBF()(x, y),
        "polynomial": pairwise.polynomial_kernel(x, y),
        "matern32": gp.Matern()(x, y),
    }.items():
        np.testing.assert_allclose(np.asarray(fl.kernel_matrix(x, y, kernel)), wanted, rtol=1e-12)
    by_gamma = np.asarray(fl.kernel_matrix(x, y, gamma=0.125))
    np.testing.assert_allclose(by_gamma, pairwise.rbf_kernel(x, y, gamma=0.125), rtol=1e-12)
    lengths = [1.0, 2.0, 0.5, 3.0]
    np.testing.assert_allclose(
        np.asarray(fl.kernel_matrix(x, y, "matern52", length_scale=lengths)),
        gp.Matern(lengths, nu=2.5)(x, y),
        rtol=1e-12,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [3, 40])
def test_elements_follow_from_their_points_alone(kernel, d, tmp_path):
    x = points(1500, d, 3)
    x[3] = x[1400]
    X = fl.from_numpy(x, tmp_path / "x.npy")
    k = fl.kernel_matrix(X, kernel=kernel)
    whole = np.asarray(k)
    assert np.array_equal(whole, whole.T)
    assert np.array_equal(k[3:700:2, 801:], whole[3:700:2, 801:])
    assert k[1499, 7] == whole[1499, 7]
    assert (
        np.array_equal(
            np.asarray(fl.kernel_matrix(x[:33], x[4:], kernel=kernel)[:, :1400])[:, 17],
            np.asarray(fl.kernel_matrix(x[:33], x[21:22], kernel=kernel))[:, 0],
        )
        or d > 32
    )
    if kernel not in ("linear", "polynomial"):
        assert (np.diag(whole) == 1).all()
        assert whole[3, 1400] == 1
    columns = np.ascontiguousarray(x.T)
    assert np.array_equal(np.asarray(fl.kernel_matrix(fl.from_numpy(columns).T, kernel=kernel)), whole)


def test_small_values_are_zero_and_nan_stays():
    x = np.array([[0.0], [14.0], [1e200], [np.nan]])
    k = np.asarray(fl.kernel_matrix(x, dtype="float32"))
    assert k[0, 1] == 0
    assert k[0, 2] == 0
    assert k.dtype == "float32"
    assert np.isnan(k[3]).all()
    assert np.isnan(k[:, 3]).all()
    assert not np.isnan(k[:3, :3]).any()
    assert np.asarray(fl.kernel_matrix(x))[0, 1] == pytest.approx(np.exp(-98), rel=1e-14)


def test_products_have_the_bits_of_what_is_stored_and_keep_nothing(tmp_path):
    x = points(1600, 3, 4)
    X = fl.from_numpy(x, tmp_path / "x.npy")
    b = fl.from_numpy(points(1600, 900, 5), tmp_path / "b.npy")
    k = fl.kernel_matrix(X, kernel="matern52", length_scale=0.4)
    kept = fl.rechunk(k, k.chunks, out=tmp_path / "k.zarr")
    wanted = np.asarray(fl.matmul(kept, b))
    for room, workers in ((80, 1), (120, 3), (2048, 2)):
        with fl.Runtime(workers=workers):
            assert np.asarray(fl.matmul(k, b, memory=beside(room))).tobytes() == wanted.tobytes()
            plan = fl.matmul.plan(k, b, memory=beside(room))
    assert plan.flops >= 2 * 1600 * 1600 * 900 + 1600 * 1600 * 9
    low = fl.matmul.plan(k, b, memory=beside(80))
    assert "scratch" not in low.note
    assert low.scratch_bytes <= b.nbytes + (4 << 20)
    v = points(1600, 1, 6)[:, 0]
    np.testing.assert_allclose(np.asarray(k @ v), np.asarray(kept) @ v, rtol=1e-12)


def test_what_is_moved_is_points(tmp_path):
    X = fl.from_numpy(points(3000, 3, 4), tmp_path / "x.npy")
    k = fl.kernel_matrix(X)
    total = float((k * 1).sum())
    assert fl.stats().bytes_read < 2 << 20  # the matrix is 72 MB
    assert total == pytest.approx(float(np.asarray(k).sum()), rel=1e-12)
    found = fl.pca(k, 2, center=False, seed=1)
    values = scipy.linalg.eigvalsh(np.asarray(k, "f8"), subset_by_index=[2998, 2999])  # K is symmetric
    np.testing.assert_allclose(found.singular_values, values[::-1], rtol=1e-6)


def test_callables_see_blocks_and_the_diagonal_alone(tmp_path):
    x = points(700, 2, 7)
    X = fl.from_numpy(x, tmp_path / "x.npy")
    kernel = gp.RBF(0.7) + gp.WhiteKernel(0.25)
    k = fl.kernel_matrix(X, kernel=kernel, key="rbf and noise")
    np.testing.assert_allclose(np.asarray(k), kernel(x), rtol=1e-13, atol=1e-15)
    assert np.array_equal(k[255:258, 250:600], np.asarray(k)[255:258, 250:600])
    between = fl.kernel_matrix(X, x[:100], kernel=kernel)
    np.testing.assert_allclose(np.asarray(between), kernel(x, x[:100]), rtol=1e-13, atol=1e-15)
    plan = fl.rechunk.plan(between, (100, 100), out=tmp_path / "between.zarr")
    assert "begins again" in plan.note
    assert "begins again" not in fl.rechunk.plan(k, (100, 100), out=tmp_path / "k.zarr").note


KILLED = """
k = fl.kernel_matrix(fl.open("x.npy"), kernel=KERNEL, **OPTIONS)
fl.matmul(k, fl.open("b.npy"), out="c.zarr", memory="160MiB")
result = told() | {"digest": digest("c.zarr"), "saves": len(saves)}
"""


def test_a_killed_product_goes_on(process, tmp_path):
    np.save(tmp_path / "x.npy", points(2500, 3, 8))
    np.save(tmp_path / "b.npy", points(2500, 2100, 9))
    code = KILLED.replace("KERNEL", "'matern32'").replace("OPTIONS", "{'length_scale': 0.5}")
    whole = process(code)
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=max(1, whole["saves"] // 2))
    (left,) = left_at(tmp_path / "c.zarr")
    assert 0 < left.done < 1
    again = process('fl.resume("c.zarr", memory="160MiB")\nresult = told() | {"digest": digest("c.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]


def test_a_callable_goes_on_by_its_key_alone(process, tmp_path):
    np.save(tmp_path / "x.npy", points(1500, 3, 8))
    np.save(tmp_path / "b.npy", points(1500, 2100, 9))
    code = KILLED.replace("KERNEL", "lambda x, y=None: x @ (x if y is None else y).T")
    keyed = code.replace("OPTIONS", "{'key': 'linear'}")
    process(keyed, kill=1)
    assert "resumed" in process(keyed)["what"]
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(code.replace("OPTIONS", "{}"), kill=1)
    assert "resumed" not in process(code.replace("OPTIONS", "{}"))["what"]
    process(keyed.replace("c.zarr", "d.zarr"), kill=1)
    with pytest.raises(fl.Error, match="make the same call again, with the same key="):
        fl.resume(tmp_path / "d.zarr")


REFUSED = {
    "of X and Y": (lambda x: fl.kernel_matrix(x, x[:, :2]), fl.ShapeError, "X has 3 coordinates and Y 2"),
    "a vector": (lambda x: fl.kernel_matrix(x[0]), fl.ShapeError, "a matrix of real numbers"),
    "complex": (lambda x: fl.kernel_matrix(x + 1j), fl.ShapeError, "a matrix of real numbers"),
    "unknown": (lambda x: fl.kernel_matrix(x, kernel="gauss"), ValueError, "choose 'rbf'"),
    "too many lengths": (lambda x: fl.kernel_matrix(x, length_scale=[1, 2]), fl.ShapeError, "has 2 values"),
    "negative length": (lambda x: fl.kernel_matrix(x, length_scale=-1), ValueError, "above 0"),
    "both": (lambda x: fl.kernel_matrix(x, length_scale=1, gamma=1), TypeError, "give one"),
    "not its own": (lambda x: fl.kernel_matrix(x, kernel="linear", gamma=1), TypeError, "leave it out"),
    "of a callable": (lambda x: fl.kernel_matrix(x, kernel=gp.RBF(), gamma=1), TypeError, "leave it out"),
    "int result": (lambda x: fl.kernel_matrix(x, dtype="int32"), TypeError, "float32 or float64"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refuses(kind):
    call, error, text = REFUSED[kind]
    with pytest.raises(error, match=text) as refused:
        call(points(5, 3))
    assert str(refused.value).startswith("kernel_matrix: ")
    assert str(refused.value).count(". ") == 0


def test_callables_that_fail_are_told_of_in_one_sentence():
    x = points(300, 3)

    def raises(x, y=None):
        raise KeyError("no such kernel")

    with pytest.raises(KeyError, match="no such kernel"):
        np.asarray(fl.kernel_matrix(x, kernel=raises))
    with pytest.raises(fl.ShapeError, match="returned 3 for a block of 256 x 256"):
        np.asarray(fl.kernel_matrix(x, kernel=lambda x, y=None: np.ones(3)))
    with pytest.raises(TypeError, match="returned complex128"):
        np.asarray(fl.kernel_matrix(x, kernel=lambda x, y=None: 1j))
