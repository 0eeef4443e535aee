"""Sorts: NumPy's order and bits for every dtype, axis, skew and limit."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


def same(found, wanted) -> None:
    """Bits too: −0.0 and the bits of a NaN."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


def downwards(x, axis):
    """Places of the largest first, NaN last, equal ones in their order."""
    nan = x != x
    up = np.argsort(np.where(nan, 0, x)[::1], axis, kind="stable")
    turned = np.flip(np.argsort(np.flip(np.where(nan, 0, x), axis), axis, kind="stable"), axis)
    last = x.shape[axis] - 1 - turned
    assert up.shape == last.shape
    order = np.take_along_axis(nan, last, axis)
    return np.take_along_axis(last, np.argsort(order, axis, kind="stable"), axis)


@examples(30)
@given(data=st.data())
def test_sorts_are_numpys(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    x = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, max_side=9, min_side=0)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    same(fl.sort(x, axis=axis), np.sort(x, axis, kind="stable"))
    same(fl.argsort(x, axis=axis), np.argsort(x, axis, kind="stable"))
    if x.dtype.kind != "c":
        places = downwards(x, axis)
        same(fl.argsort(x, axis=axis, descending=True), places)
        same(fl.sort(x, axis=axis, descending=True), np.take_along_axis(x, places, axis))


def skewed(name: str, n: int, rng) -> np.ndarray:
    any_order = rng.integers(-(1 << 62), 1 << 62, n)
    return {
        "random": any_order,
        "equal": np.full(n, 7),
        "reversed": np.sort(any_order)[::-1].copy(),
        "half": np.where(np.arange(n) % 2, 5, any_order),
    }[name]


@pytest.mark.parametrize("skew", ["random", "equal", "reversed", "half"])
def test_every_skew_in_the_least_memory(skew, rng, tmp_path):
    x = skewed(skew, 600_000, rng)
    A = fl.from_numpy(x, tmp_path / "x.zarr", chunks=(1 << 16,))
    del x
    least = fl.argsort.plan(A, out=tmp_path / "y.zarr").least_memory
    plan = fl.argsort.plan(A, out=tmp_path / "y.zarr", memory=least)
    assert plan.passes >= 2
    places = fl.argsort(A, out=tmp_path / "y.zarr", memory=least)
    done = fl.stats()
    assert done.passes >= 2
    assert done.peak_memory <= least
    assert done.bytes_written <= 1.3 * plan.bytes_written
    same(places, np.argsort(A[...], kind="stable"))
    if skew != "random":
        return
    with pytest.raises(fl.BudgetError) as refused:
        fl.sort(A, memory="1MiB")  # a limit near what is resident would do where the process shrinks
    same(fl.sort(A, memory=refused.value.least), np.sort(A[...]))


def test_workers_and_limits_change_no_bit(isolated):
    assert isolated(
        """
        x = np.random.default_rng(3).integers(0, 1000, 700_000).astype("f4")
        x[::9] = np.nan
        x[::7] = -0.0
        A = fl.from_numpy(x, "x.npy")
        result = []
        for workers, more in ((1, 44), (2, 48), (2, 400)):
            with fl.Runtime(memory=fl._core.resident_bytes() + (more << 20), workers=workers):
                y = fl.sort(A, out="y.zarr")
                result.append(y[...].tobytes() == np.sort(x, kind="stable").tobytes())
        """
    ) == [True, True, True]


@pytest.mark.parametrize("axis", [0, 1])
def test_lines_beyond_memory(axis, rng, monkeypatch, tmp_path):
    import flagstone._sort.order as order

    x = rng.standard_normal((300, 70)).astype("f4")
    A = fl.from_numpy(x, tmp_path / "x.zarr", chunks=(64, 64))
    monkeypatch.setattr(order, "_WHOLE", 200)  # a line is longer than that
    monkeypatch.setattr(order, "_CHUNK", 256)
    same(fl.sort(A, axis=axis), np.sort(x, axis))
    assert "chunks of lines first" in fl.stats().note
    same(fl.argsort(A.T, axis=axis), np.argsort(x.T, axis, kind="stable"))
    assert fl.sort.plan(A, axis=axis).passes >= 2


def test_the_input_is_left_or_exchanged_whole(rng, tmp_path):
    x = rng.standard_normal(5000)
    A = fl.from_numpy(x, tmp_path / "a.zarr")
    fl.sort(A, out=tmp_path / "b.npy")
    same(A, x)
    same(fl.open(tmp_path / "b.npy"), np.sort(x))
    A = fl.open(tmp_path / "a.zarr", mode="r+")
    assert fl.sort(A, out=A) is A
    same(A, np.sort(x))
    assert fl.sort(x, out=x) is x
    same(x, np.sort(x))
    same(fl.sort(fl.asarray(x) * -2), np.sort(x * -2))


def test_records_by_several_keys(rng, tmp_path):
    n = 30_000
    a, b = rng.integers(0, 9, n).astype("i2"), rng.integers(0, 9, n).astype("f8")
    b[::11] = np.nan
    place = np.arange(n, dtype="u4")
    order = np.lexsort((b, a))
    for found, one in zip(fl.sort_by([a, fl.from_numpy(b), place], 2), (a, b, place), strict=True):
        same(found, one[order])
    out = [tmp_path / "a.zarr", None, np.empty(n, "u4")]
    made = fl.sort_by([a, b, place], out=out, descending=True)
    down = np.argsort(-a, kind="stable")
    assert made[2] is out[2]
    for found, one in zip(made, (a, b, place), strict=True):
        same(found, one[down])
    assert fl.sort_by.plan([a, b]).bytes_written > 0


def test_bad_input_is_named(rng):
    x = rng.standard_normal((4, 5))
    with pytest.raises(np.exceptions.AxisError):
        fl.sort(x, axis=2)
    with pytest.raises(fl.ShapeError, match="sort: the array has no dimensions"):
        fl.sort(np.float64(3))
    with pytest.raises(TypeError, match="stable is 'yes'"):
        fl.sort(x, stable="yes")
    with pytest.raises(ValueError, match="keys is 3; between 1 and 2"):
        fl.sort_by([x[0], x[1]], 3)
    with pytest.raises(fl.ShapeError, match="array 1 is 4 and the first 5"):
        fl.sort_by([x[0], x[:, 0]])
    with pytest.raises(fl.ShapeError, match="out has 1 places and there are 2"):
        fl.sort_by([x[0], x[0]], out=[None])
    with pytest.raises(TypeError, match="list of arrays"):
        fl.sort_by(x)
    with pytest.raises(fl.ShapeError):
        fl.sort(x, out=np.empty(3))
    for sorts in (fl.sort, lambda x, **options: fl.sort_by([x[0]], **options)):
        with pytest.raises(TypeError, match="descending is 'no'"):
            sorts(x, descending="no")
    with pytest.raises(fl.ShapeError, match="arrays is empty; one array"):
        fl.sort_by([])


def test_results_of_one_sort_have_places_of_their_own(rng, tmp_path):
    x = rng.standard_normal((2, 5))
    same_one, path = np.empty(5), tmp_path / "s.npy"
    for outs in ([same_one] * 2, [path, f"{tmp_path}/./s.npy"]):
        with pytest.raises(fl.ShapeError, match="two results would go to"):
            fl.sort_by(list(x), out=outs)
    assert not path.exists()


def test_the_command(rng, tmp_path):
    from click.testing import CliRunner

    from flagstone._cli import cli

    x = rng.standard_normal(4000)
    fl.from_numpy(x, tmp_path / "x.npy")
    src, dst = str(tmp_path / "x.npy"), str(tmp_path / "y.zarr")
    assert "sort 4000 float64" in CliRunner().invoke(cli, ["sort", src, dst, "--plan"]).output
    assert CliRunner().invoke(cli, ["sort", src, dst]).exit_code == 0
    same(fl.open(dst), np.sort(x))
    again = CliRunner().invoke(cli, ["sort", src, dst])
    assert again.exit_code != 0
    assert (
        CliRunner().invoke(cli, ["sort", src, dst, "--places", "--descending", "--overwrite"]).exit_code == 0
    )
    same(fl.open(dst), np.argsort(-x, kind="stable"))
