"""Least squares from one R, against NumPy's and the dense formulas."""

from fractions import Fraction

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from tests.support.processes import beside

DTYPES = ["float32", "float64", "complex64", "complex128"]


def problem(m, n, k, dtype, seed=0, condition=10.0):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        x = rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x

    a = draw(m, n) * np.geomspace(1, 1 / condition, n)
    b = a @ draw(n, k) + draw(m, k)
    return a.astype(dtype), b.astype(dtype)


def near(mine, theirs, dtype, factor=2000.0):
    theirs = np.asarray(theirs)
    assert np.shape(mine) == theirs.shape
    scale = max(1e-300, float(np.linalg.norm(theirs.ravel())))
    assert np.linalg.norm((mine - theirs).ravel()) <= factor * np.finfo(dtype).eps * scale


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(9000, 12, 3), (40, 40, 1), (700, 600, 2), (1, 1, 1), (20, 300, 2), (300, 1000, 1)], ids=str
)
def test_as_numpy(shape, dtype):
    a, b = problem(*shape, dtype)
    x, residuals, rank, s = linalg.lstsq(a, b)
    theirs = np.linalg.lstsq(a.astype(np.result_type(dtype, "f8")), b, rcond=None)
    assert rank == theirs[2]
    near(x, theirs[0], dtype, 5e4)
    near(s, theirs[3], dtype)
    if theirs[1].size:
        near(residuals, theirs[1], dtype)


def test_a_vector_and_a_matrix_on_disk(tmp_path):
    a, b = problem(20_000, 30, 1, "float64")
    np.save(tmp_path / "a.npy", a)
    stored = fl.open(str(tmp_path / "a.npy"))
    y = fl.from_numpy(b[:, 0], str(tmp_path / "b.zarr"))
    fit = linalg.lstsq(stored, y)
    assert fit.x.shape == (30,)
    near(fit.x, np.linalg.lstsq(a, b[:, 0], rcond=None)[0], "float64")
    turned = fl.from_numpy(np.ascontiguousarray(a.T)).T
    near(linalg.lstsq(turned, b[:, 0]).x, fit.x, "float64")
    near(linalg.lstsq(stored * 2, b[:, 0]).x * 2, fit.x, "float64")


def ridge_by_hand(a, b, value, intercept=False, weights=None):
    """Penalised normal equations in extended form, by a stacked QR."""
    m, n = a.shape
    w = np.ones(m) if weights is None else np.sqrt(weights)
    a1 = np.hstack([np.ones((m, 1)), a]) if intercept else a
    stacked = np.vstack(
        [a1 * w[:, None], np.hstack([np.zeros((n, int(intercept))), np.sqrt(value) * np.eye(n)])]
    )
    x = np.linalg.lstsq(stacked, np.concatenate([b * w, np.zeros(n)]), rcond=None)[0]
    inverse = np.linalg.pinv(stacked)
    hat = (a1 * w[:, None]) @ inverse[:, :m]
    rss = float(np.sum((w * (b - a1 @ x)) ** 2))
    df = float(np.trace(hat))
    return x, rss, df, np.sqrt(rss / (m - df) * np.sum(inverse[:, :m] ** 2, axis=1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_ridge_path(intercept, weighted):
    a, b = problem(300, 9, 1, "float64")
    a, b = a + 3, b[:, 0] + 5
    weights = np.random.default_rng(5).uniform(0.1, 4, 300) if weighted else None
    values = [0, 0.3, 10, 1000.0]
    fit = linalg.lstsq(a, b, ridge=values, intercept=intercept, weights=weights)
    assert fit.x.shape == (4, 9)
    for i, value in enumerate(values):
        x, rss, df, stderr = ridge_by_hand(a, b, value, intercept, weights)
        near(fit.x[i], x[int(intercept) :], "float64", 1e5)
        near(fit.residuals[i], rss, "float64", 1e5)
        near(fit.degrees_of_freedom[i], df, "float64", 1e5)
        near(fit.gcv[i], 300 * rss / (300 - df) ** 2, "float64", 1e5)
        near(fit.stderr[i], stderr[int(intercept) :], "float64", 1e6)
        if intercept:
            near(fit.intercept[i], x[0], "float64", 1e5)
            near(fit.intercept_stderr[i], stderr[0], "float64", 1e6)
    alone = linalg.lstsq(a, b, ridge=10, intercept=intercept, weights=weights)
    assert np.array_equal(alone.x, fit.x[2])


def test_a_ridge_of_a_wide_matrix():
    a, b = problem(20, 90, 1, "float64")
    fit = linalg.lstsq(a, b[:, 0], ridge=2.0)
    near(fit.x, np.linalg.solve(a.T @ a + 2 * np.eye(90), a.T @ b[:, 0]), "float64", 1e5)


def test_the_rank_is_numpys():
    a, b = problem(500, 8, 2, "float64")
    a[:, 5] = a[:, 2] + a[:, 3]
    for rcond in (None, 0.2):
        x, _, rank, _ = linalg.lstsq(a, b, rcond=rcond)
        theirs = np.linalg.lstsq(a, b, rcond=rcond)
        assert rank == theirs[2] < 8
        near(x, theirs[0], "float64", 1e5)


def test_not_by_normal_equations():
    """Condition 1e8: their error would be that of the square, all digits."""
    a, _ = problem(4000, 10, 1, "float64", condition=1e8)
    x = np.ones(10)
    mine = linalg.lstsq(a, a @ x).x
    assert np.linalg.norm(mine - x) <= 1e-5


def test_normal_equations_where_they_are_named():
    a, b = problem(3000, 9, 2, "complex128")
    mine, theirs = linalg.lstsq(a, b, method="normal", intercept=True), linalg.lstsq(a, b, intercept=True)
    plan = linalg.lstsq.plan(a, b, method="normal")
    width = a.shape[1] + (b.shape[1] if b.ndim > 1 else 1)
    assert plan.flops <= 4 * len(a) * width**2  # a triangle of the Gram matrix: half of a product's
    near(mine.x, theirs.x, "float64", 1e5)
    near(mine.residuals, theirs.residuals, "float64", 1e5)
    near(mine.intercept, theirs.intercept, "float64", 1e5)
    a[:, 3] = a[:, 4]
    with pytest.raises(fl.NumericalError, match="not positive definite"):
        linalg.lstsq(np.rint(a * 8), b, method="normal")


def test_the_limit_does_not_change_bits(tmp_path):
    a, b = problem(120_000, 64, 1, "float64")
    np.save(tmp_path / "a.npy", a)
    del a
    stored, seen = fl.open(str(tmp_path / "a.npy")), set()
    need = linalg.lstsq.plan(stored, b[:, 0]).least_memory
    for memory, workers in ((need, 1), (need + (40 << 20), 2), (beside(1024), 4)):
        with fl.Runtime(memory=memory, workers=workers):
            seen.add(linalg.lstsq(stored, b[:, 0]).x.tobytes())
    assert len(seen) == 1


def test_least_memory_in_tiles():
    """Beyond a product of one tile of 8 MiB; of an LU in columns of tiles of 512."""
    edge, tile = 1024, 8 << 20

    def needed(routine, *operands, **options):
        held = fl._core.resident_bytes()  # plans themselves leave something behind
        return routine.plan(*operands, **options).least_memory - held

    one = needed(fl.matmul, fl.planned((edge, edge)), fl.planned((edge, edge)), out="x.zarr")
    for m, n in ((100_000, 1024), (20_000, 20_000), (4000, 30_000)):
        assert needed(linalg.qr, fl.planned((m, n)), mode="r", out="x.zarr") - one <= 12 * tile
        assert needed(linalg.lq, fl.planned((m, n)), mode="r", out="x.zarr") - one <= 12 * tile
    a, b = fl.planned((400_000, 1024)), fl.planned((400_000, 1))
    assert needed(linalg.lstsq, a, b) - one <= 12 * tile
    square = fl.planned((20_000, 20_000))
    assert needed(linalg.cholesky, square, out="x.zarr") - one <= 12 * tile
    assert needed(linalg.lu_factor, square, out="x.zarr") - one <= 3 * 20_000 * 512 * 8


def test_out(tmp_path):
    a, b = problem(50, 4, 1, "float64")
    into = np.empty(4)
    fit = linalg.lstsq(a, b[:, 0], out=into)
    assert np.array_equal(into, fit.x)
    linalg.lstsq(a, b[:, 0], ridge=[0, 1], out=tmp_path / "x.npy")
    assert np.load(tmp_path / "x.npy").shape == (2, 4)
    with pytest.raises(fl.ShapeError, match="out is 4 float64"):
        linalg.lstsq(a, b, out=into)


def test_refusals():
    a, b = problem(20, 4, 1, "float64")
    for options, message in [
        ({"ridge": -1}, "ridge is -1"),
        ({"method": "fast"}, "method is 'fast'"),
        ({"weights": np.ones(3)}, "weights are 3"),
        ({"weights": -np.ones(20)}, "weights are 20"),
    ]:
        with pytest.raises(fl.ShapeError, match=message):
            linalg.lstsq(a, b, **options)
    with pytest.raises(fl.ShapeError, match="as many rows"):
        linalg.lstsq(a, b[:5])
    b[7] = np.nan
    with pytest.raises(fl.NumericalError, match="^lstsq: b has NaN or Inf at row 7, column 0"):
        linalg.lstsq(a, b)
    with pytest.raises(fl.NumericalError, match="b has NaN or Inf at row 7, column 0"):
        linalg.lstsq(np.ones((20, 30)), b)


@pytest.mark.parametrize("most", [3, 4096], ids=["large", "small"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(most, bad, monkeypatch):
    """By its own row and column, not by those of [1 a b] or of the adjoint."""
    monkeypatch.setattr("flagstone._solve.lstsq.MOST", most)
    (a, b), wide = problem(30, 5, 2, "float64"), problem(9, 20, 1, "float64")
    spoilt_a, spoilt_b = a.copy(), b.copy()
    spoilt_a[17, 2] = spoilt_b[11, 1] = wide[0][4, 15] = bad
    for intercept in (False, True):
        for given, place in (((spoilt_a, b), "a has NaN or Inf at row 17, column 2"),
                             ((a, spoilt_b), "b has NaN or Inf at row 11, column 1")):  # fmt: skip
            with pytest.raises(fl.NumericalError, match=f"^lstsq: {place};"):
                linalg.lstsq(*given, intercept=intercept)
            name, _, column = place[0], *place.split(", column ")
            with pytest.raises(
                fl.NumericalError, match=f"^lstsq: {name} has NaN or Inf in column {column}, "
            ):
                linalg.lstsq(*given, intercept=intercept, method="normal")
        with pytest.raises(fl.NumericalError, match="^lstsq: a has NaN or Inf at row 4, column 15;"):
            linalg.lstsq(*wide, intercept=intercept, ridge=1)


@pytest.mark.parametrize("most", [3, 4096], ids=["large", "small"])
@pytest.mark.parametrize("method", ["qr", "normal", "wide"])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_of_weight_0_are_no_observations(method, most, intercept, monkeypatch):
    monkeypatch.setattr("flagstone._solve.lstsq.MOST", most)
    wide = method == "wide"
    a, b = problem(30, 60 if wide else 5, 1, "float64")
    kept = np.arange(30) % 3 > 0
    weights, options = np.where(kept, 2.0, 0), {"ridge": 0.5, "intercept": intercept}
    options["method"] = "qr" if wide else method
    mine = linalg.lstsq(a, b, weights=weights, **options)
    without = linalg.lstsq(a[kept], b[kept], weights=weights[kept], **options)
    for name in ("x", "gcv", "degrees_of_freedom", *(() if wide else ("stderr",))):
        near(getattr(mine, name), getattr(without, name), "float64", 1e5)


def test_weights_that_are_objects():
    a, b = problem(20, 4, 1, "float64")
    halves = [Fraction(1, 2)] * 20
    assert np.array_equal(linalg.lstsq(a, b, weights=halves).x, linalg.lstsq(a, b, weights=[0.5] * 20).x)
    for odd in (["1"] * 20, [None] * 20):
        with pytest.raises(fl.ShapeError, match="weights are object"):
            linalg.lstsq(a, b, weights=np.array(odd, object))


ODD = {
    "intercept": [2, -1, None, "no"],
    "rcond": ["x", np.nan, np.inf, [1], 1j],
    "ridge": ["abc", None, [], [[1, 2]], np.ones((2, 2)), 1j, np.inf, np.nan, [0, -1], True],
    "weights": ["abc", np.full(20, 1j), np.zeros(20), [[1], [1, 2]], np.full(20, np.nan)],
    "method": [None, ["qr"]],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments_are_refused_before_any_work(name):
    a, b = problem(20, 4, 1, "float64")
    for value in ODD[name]:
        with pytest.raises((fl.ShapeError, TypeError), match=r"^lstsq: (?s:.*)\.$"):
            linalg.lstsq.plan(a, b, **{name: value})


def test_operands_that_are_no_numbers():
    for a in (np.array([[object()]]), [["a"]], [[1, 2], [3]]):
        with pytest.raises((fl.ShapeError, TypeError), match=r"^lstsq: a "):
            linalg.lstsq(a, np.ones(len(a)))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(20, 45), (30, 30), (2, 3), (1, 4)], ids=str)
def test_an_intercept_of_no_more_rows_than_columns(shape, weighted, dtype):
    """Centred by hand: the constant takes one from the rank, and one of the degrees of freedom."""
    m, n = shape
    a, b = problem(m, n, 2, dtype, condition=3.0)
    a, b = a + 3, b + 5
    weights = np.random.default_rng(5).uniform(0.1, 4, m) if weighted else np.ones(m)
    means = weights @ a / weights.sum(), weights @ b / weights.sum()
    root = np.sqrt(weights)[:, None]
    a0, b0 = root * (a - means[0]), root * (b - means[1])
    fit = linalg.lstsq(a, b, ridge=[0, 1e-7, 3.0], intercept=True, weights=weights if weighted else None)
    u, s, vh = np.linalg.svd(a0, full_matrices=False)
    s[m - 1 :] = 0
    assert fit.rank == m - 1
    for i, value in enumerate([0, 1e-7, 3.0]):
        damped = s / np.where(s > 0, s**2 + value, 1)
        x = vh.conj().T @ (damped[:, None] * (u.conj().T @ b0))
        rss = np.sum(np.abs(b0 - a0 @ x) ** 2, axis=0)
        near(fit.x[i], x, dtype, 1e6)
        near(fit.intercept[i], means[1] - means[0] @ x, dtype, 1e5)
        near(fit.degrees_of_freedom[i], 1 + np.sum(s * damped), dtype)
        if value == 3.0:
            near(fit.residuals[i], rss, dtype, 1e6)
    left = np.sum(value / (s[: m - 1] ** 2 + value))
    if m > 1:
        near(fit.gcv[2], m * rss / left**2, dtype, 1e6)


def test_gcv_where_next_to_nothing_is_left():
    """m - df and RSS both vanish with the ridge; their ratio does not, and keeps its digits."""
    a, b = problem(12, 30, 1, "float64", condition=2.0)
    fit = linalg.lstsq(a, b[:, 0], ridge=[0, 1e-12, 1e-9])
    u, s, _ = np.linalg.svd(a, full_matrices=False)
    limit = 12 * np.sum((u.T @ b[:, 0] / s**2) ** 2) / np.sum(1 / s**2) ** 2
    assert np.isnan(fit.gcv[0])
    np.testing.assert_allclose(fit.gcv[1:], limit, rtol=1e-8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_entries_near_the_ends_of_the_range(scale):
    a, b = problem(50, 5, 1, "float64")
    one = linalg.lstsq(a, b[:, 0], intercept=True, ridge=[0, 1.0])
    far = linalg.lstsq(a * scale, b[:, 0] * scale, intercept=True, ridge=[0, 1.0])
    near(far.x[0], one.x[0], "float64")
    near(far.stderr[0], one.stderr[0], "float64")
    near(far.intercept_stderr[0] / scale, one.intercept_stderr[0], "float64")
    near(far.x[1], one.x[0] if scale > 1 else np.zeros(5), "float64")
    near(far.degrees_of_freedom, [6, 6] if scale > 1 else [6, 1], "float64")
    assert (far.residuals == (np.inf if scale > 1 else 0)).all()  # squares, which no number holds


def test_a_negative_rcond_is_epsilon():
    b = problem(40, 4, 1, "float64")[1]
    for least, rank, by_default in ((2e-15, 4, 3), (1e-17, 3, 3)):
        a = np.eye(40, 4) * [1, 1, 1, least]
        for rcond in (-1, -0.5, np.finfo(float).eps):
            assert linalg.lstsq(a, b, rcond=rcond).rank == np.linalg.lstsq(a, b, rcond=rcond)[2] == rank
        assert linalg.lstsq(a, b).rank == by_default


@pytest.mark.parametrize("shape", [(20, 5), (20, 20), (5, 20)], ids=str)
@pytest.mark.parametrize("sides", [0, 1, 3])
def test_residuals_that_numpy_gives(shape, sides):
    a, b = problem(*shape, max(1, sides), "float64")
    b = b if sides else b[:, 0]
    for deficient in (False, True):
        if deficient:
            a[:, 0] = a[0] = 0
        mine, theirs = linalg.lstsq(a, b)[1], np.linalg.lstsq(a, b, rcond=None)[1]
        assert mine.shape == theirs.shape
        assert linalg.lstsq(a, b).residuals.shape == b.shape[1:]
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_what_a_wide_fit_did_is_that_of_all_its_calls():
    a, b = problem(40, 90, 1, "float64")
    plan = linalg.lstsq.plan(a, b, ridge=[0, 1.0])
    linalg.lstsq(a, b, ridge=[0, 1.0])
    done = fl.stats()
    assert (done.what, done.method, done.flops) == (plan.what, plan.method, plan.flops)
    assert done.flops > linalg.lq.plan(a, mode="raw").flops
    assert done.bytes_read == plan.bytes_read
