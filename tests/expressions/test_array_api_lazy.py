"""Creation and putting together as the array-API standard and NumPy have them, over every dtype and shape."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.array_api_oracle import DTYPES, EXAMPLES, PLACES, SEEDS, SHAPES, ours, values, xp
from tests.support.examples import examples
from tests.support.strategies import DTYPES as ALL

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

#: What is held to the standard here (test_array_api.py compares the list with the standard's).
CREATION = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like",
    "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip
PLACED = [
    "broadcast_to", "concat", "expand_dims", "flip", "repeat", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def same(got, wanted) -> None:
    """The same shape, dtype and bits, whole and in a part."""
    wanted = np.asarray(wanted)
    assert isinstance(got, fl.Array)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    found = np.asarray(got)
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()
    part = tuple(slice(n // 3, n // 3 + max(1, n // 2)) for n in wanted.shape)
    assert np.asarray(got[part]).tobytes() == np.ascontiguousarray(wanted[part]).tobytes()


def strict(made) -> np.ndarray:
    return np.asarray(made)


# Creation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_value(dtype):
    for shape in [(), (0,), (3,), (4, 5), (2, 0, 3), 7]:
        for name in ("zeros", "ones"):
            same(getattr(fl, name)(shape, dtype), strict(getattr(xp, name)(shape, dtype=getattr(xp, dtype))))
        like = np.empty(shape, dtype)
        for name in ("zeros_like", "ones_like"):
            same(getattr(fl, name)(like), strict(getattr(xp, name)(xp.asarray(like))))
        same(fl.full(shape, 1, dtype), np.full(shape, 1, dtype))
        same(fl.full_like(like, 1), np.full_like(like, 1))
        assert (fl.empty(shape, dtype).shape, fl.empty_like(like).dtype) == (np.zeros(shape).shape, dtype)
    assert fl.zeros(3).dtype == np.float64
    assert fl.full(3, True).dtype == bool
    same(fl.full((2, 2), np.float32(1.5)), np.full((2, 2), np.float32(1.5)))
    same(np.zeros_like(fl.ones((3, 2), "int8")), np.zeros((3, 2), "int8"))


@given(
    st.one_of(st.integers(-50, 50), st.floats(-50, 50)),
    st.one_of(st.integers(-50, 50), st.floats(-50, 50)),
    st.one_of(st.integers(-9, 9), st.floats(-9, 9)).filter(lambda x: abs(x) > 0.1),
    st.sampled_from([None, "int8", "int64", "uint64", "float16", "float32", "float64"]),
)
@examples(60)
@example(-9.9e-172, 0, 1.0, "float16")  # begins with -0.0
def test_arange_counts_as_numpy_does(start, stop, step, dtype):
    if dtype is not None and np.dtype(dtype).kind in "iu":
        start, stop, step = int(start), int(stop), int(step) or 1
        if dtype == "uint64":
            start, stop, step = abs(start), abs(stop), abs(step)
    same(fl.arange(start, stop, step, dtype), np.arange(start, stop, step, dtype))
    same(fl.arange(abs(stop)), np.arange(abs(stop)))


@given(
    st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 300), st.booleans(),
    st.sampled_from([None, "float32", "int32"]),
)  # fmt: skip
@examples(60)
@example(-0.0, 0.0, 1, False, None)
@example(-0.0, 5e-324, 5, True, None)  # steps below the least float64
def test_linspace_counts_as_numpy_does(start, stop, num, endpoint, dtype):
    same(fl.linspace(start, stop, num, endpoint, dtype), np.linspace(start, stop, num, endpoint, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_diagonals_and_triangles(dtype, folder):
    for rows, cols in [(1, 1), (5, 5), (4, 7), (7, 3), (0, 3)]:
        x = values(3, (rows, cols), dtype)
        for k in (-8, -2, 0, 1, 9):
            same(fl.eye(rows, cols, k, dtype), strict(xp.eye(rows, cols, k=k, dtype=getattr(xp, dtype))))
            same(fl.tril(ours(x, "npy", folder), k), np.tril(x, k))
            same(fl.triu(ours(x, "npy", folder), k), np.triu(x, k))
    cube = values(4, (3, 5, 4), dtype)
    same(np.tril(ours(cube, "npy", folder), 1), np.tril(cube, 1))


def test_meshgrid():
    given = np.arange(3), np.linspace(0, 1, 4), np.ones(2, "f4")
    for several in (given, given[:2], given[:1]):
        for indexing in ("xy", "ij"):
            for sparse in (False, True):
                wanted = np.meshgrid(*several, indexing=indexing, sparse=sparse)
                for got, one in zip(
                    fl.meshgrid(*map(fl.from_numpy, several), indexing=indexing, sparse=sparse),
                    wanted,
                    strict=True,
                ):
                    same(got, one)


# Putting together -----------------------------------------------------------------------------------------


@given(data=st.data())
@examples(EXAMPLES)
def test_concat_and_stack_promote_as_numpy_does(data, folder):
    dtypes = data.draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=4))
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts, joined = [], []
    for i, dtype in enumerate(dtypes):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 9))
        parts.append(values(i, tuple(own), dtype))
        joined.append(ours(parts[-1], data.draw(PLACES), folder))
    same(fl.concat(joined, axis), np.concatenate(parts, axis))
    equal = [x.astype(d) for x, d in zip([values(9, shape, dtypes[0])] * len(dtypes), dtypes, strict=True)]
    lazy = [ours(x, data.draw(PLACES), folder) for x in equal]
    for place in {0, len(shape), axis}:
        same(fl.stack(lazy, place), np.stack(equal, place))
    for got, one in zip(fl.unstack(lazy[0], axis=axis), np.moveaxis(equal[0], axis, 0), strict=True):
        same(got, one)


@given(data=st.data())
@examples(EXAMPLES)
def test_places(data, folder):
    x = values(data.draw(SEEDS), data.draw(SHAPES), data.draw(st.sampled_from(DTYPES)))
    X = ours(x, data.draw(PLACES), folder)
    axes = st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    axis = data.draw(axes)
    new = data.draw(st.integers(-x.ndim - 1, x.ndim))
    same(fl.expand_dims(X, new), np.expand_dims(x, new))
    same(fl.squeeze(X), np.squeeze(x))
    same(fl.flip(X), np.flip(x))
    reps = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    same(fl.tile(X, reps), np.tile(x, reps))
    shape = (*data.draw(st.lists(st.integers(0, 3), max_size=2)), *(n if n != 1 else 4 for n in x.shape))
    same(fl.broadcast_to(X, shape), np.broadcast_to(x, shape))
    if axis is None:
        return
    same(fl.flip(X, axis), np.flip(x, axis))
    shift = data.draw(st.integers(-20, 20))
    same(fl.roll(X, shift, axis), np.roll(x, shift, axis))
    every = tuple(range(x.ndim))
    same(fl.roll(X, (shift,) * x.ndim, every), np.roll(x, (shift,) * x.ndim, every))
    same(fl.repeat(X, shift % 4, axis), np.repeat(x, shift % 4, axis))
    same(
        fl.flip(fl.roll(fl.repeat(X, 2, axis), 3, axis), axis),
        np.flip(np.roll(np.repeat(x, 2, axis), 3, axis), axis),
    )


def test_numpys_functions_give_arrays(tmp_path):
    x = np.arange(24.0).reshape(4, 6)
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    same(np.concatenate([X, x, X + 1], axis=1), np.concatenate([x, x, x + 1], axis=1))
    same(np.stack((X, X), axis=-1), np.stack((x, x), axis=-1))
    for name, arguments in [
        ("expand_dims", (1,)), ("flip", (0,)), ("roll", (3, 1)), ("repeat", (2, 0)), ("tile", ((2, 3),)),
        ("broadcast_to", ((3, 4, 6),)), ("squeeze", ()), ("ones_like", ()), ("triu", (1,)),
    ]:  # fmt: skip
        same(getattr(np, name)(X, *arguments), getattr(np, name)(x, *arguments))
    with pytest.raises(TypeError, match="numpy.concatenate: out= is not possible here"):
        np.concatenate([X, X], out=np.empty((8, 6)))
    line = fl.from_numpy(np.arange(5))
    same(np.roll(line, 2), np.roll(np.arange(5), 2))
    same(fl.concat([line, line], None), np.concatenate([np.arange(5)] * 2, None))


def test_refusals():
    X = fl.from_numpy(np.ones((3, 4)))
    for error, match, call in [
        (TypeError, "concat: arrays is Array; a list", lambda: fl.concat(X)),
        (ValueError, "concat: the list of arrays is empty", lambda: fl.concat([])),
        (fl.ShapeError, "concat: array 0 is 3 x 4 and array 1 is 4; extents", lambda: fl.concat([X, X[0]])),
        (fl.ShapeError, "must be equal but along axis 0", lambda: fl.concat([X, X[:, 1:]])),
        (np.exceptions.AxisError, "out of bounds", lambda: fl.concat([X], 2)),
        (fl.ShapeError, "concat: axis is None", lambda: fl.concat([X, X], None)),
        (ValueError, "concat: an array without dimensions", lambda: fl.concat([X.sum(), X.sum()])),
        (fl.ShapeError, "stack: array 0 is 3 x 4 and array 1 is 2 x 4", lambda: fl.stack([X, X[1:]])),
        (fl.ShapeError, "squeeze: the array is 3 x 4", lambda: fl.squeeze(X, 0)),
        (fl.ShapeError, "roll: axis is None", lambda: fl.roll(X, 1)),
        (ValueError, "roll: 2 shifts and 3 axes", lambda: fl.roll(fl.expand_dims(X), (1, 2), (0, 1, 2))),
        (TypeError, "repeat: repeats is an array", lambda: fl.repeat(X, [1, 2, 3], 0)),
        (ValueError, "repeat: repeats is -1", lambda: fl.repeat(X, -1, 0)),
        (ValueError, "tile: reps", lambda: fl.tile(X, -1)),
        (fl.ShapeError, "broadcast_to: the array is 3 x 4 and cannot", lambda: fl.broadcast_to(X, (4, 4))),
        (fl.ShapeError, "zeros: shape is|full: shape is", lambda: fl.zeros((3, -1))),
        (TypeError, "dtype", lambda: fl.zeros(3, "S4")),
        (ValueError, "arange: step is 0", lambda: fl.arange(3, 4, 0)),
        (ValueError, "linspace: num is -1", lambda: fl.linspace(0, 1, -1)),
        (fl.ShapeError, "linspace: num is 2.5; a whole", lambda: fl.linspace(0, 1, 2.5)),
        (fl.ShapeError, "linspace: num is .* at most", lambda: fl.linspace(0, 1, 2**70)),
        (TypeError, "linspace: stop is .* a real", lambda: fl.linspace(0, [[1], [2, 3]], 3)),
        (fl.ShapeError, "tril: the array has 1 dimensions", lambda: fl.tril(np.ones(3))),
        (ValueError, "meshgrid: indexing", lambda: fl.meshgrid(np.ones(3), indexing="ab")),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            call()


def test_a_lazy_array_takes_no_assignment(tmp_path):
    x = fl.from_numpy(np.ones((3, 4)), tmp_path / "x.zarr")
    for lazy in (fl.zeros((3, 4)), fl.concat([x, x]), fl.flip(x)):
        with pytest.raises(fl.StorageError, match=r"fl\.create"):
            lazy[0] = 1
        with pytest.raises(fl.StorageError, match=r"fl\.create"):
            fl.compute(x + 1, out=lazy)
        assert lazy.mode == "r"
        assert lazy.path is None
        lazy.flush()
