"""What a time loop keeps of its steps: snapshots, reductions, criteria."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from tests.stencil.oracle import as_edges, swept
from tests.stencil.test_stencil import METHODS, box, field, heat

SCHEMES = [
    {"method": "sweep"},
    {"method": "al1", "block": (5, 7, 9), "depth": 4},
    {"method": "al2", "block": (6, 23, 17), "depth": 4, "cache_block": (3, 5, 2)},
    {"method": "al3", "block": (4, 9, 17), "depth": 5},
    {"method": "al4", "cache_block": (2, 6, 2), "depth": 5},
    {"method": "al4", "cache_block": (3, 23, 4), "depth": 9},
]
SNAPSHOTS = {
    "slice": (2, np.s_[:, 12, :]),
    "plane": (3, np.s_[-1]),
    "coarse": ([1, 4, 9], np.s_[::4, 1::3, 2:15:5]),
    "all": 8,
    "point": (1, np.s_[3, 4, 5]),
}
REDUCTIONS = ("max", "min", "sum", "l2", "change")


def history(kernel, state, steps, boundary="fixed", **options):
    """The field after each step."""
    found = []
    for _ in range(steps):
        edges = as_edges(boundary, np.ndim(state[0] if isinstance(state, tuple) else state))
        after = swept(kernel, state, 1, edges, **options)[0]
        state = after
        found.append(after[1] if isinstance(after, tuple) else after)
    return found


def kept(states, name):
    given = SNAPSHOTS[name]
    when, key = given if isinstance(given, tuple) else (given, ...)
    chosen = when if isinstance(when, list) else range(when, len(states) + 1, when)
    return np.stack([states[step - 1][key] for step in chosen])


@pytest.mark.parametrize(
    ("scheme", "boundary"), zip(SCHEMES, ["fixed", "periodic"] * 4, strict=False), ids=str
)
def test_snapshots_and_reductions(scheme, boundary):
    x = field((11, 23, 17))
    states = history(box(3, 1), x, 9, boundary)
    done = fl.stencil(
        box(3, 1), x, 9, boundary=boundary, snapshots=SNAPSHOTS, reductions=REDUCTIONS, **scheme
    )
    np.testing.assert_array_equal(np.asarray(done.state), states[-1])
    assert (done.steps, set(done.snapshots)) == (9, set(SNAPSHOTS))
    for name, array in done.snapshots.items():
        np.testing.assert_array_equal(np.asarray(array), kept(states, name), name)
    assert set(done.reductions) == set(REDUCTIONS)
    for t, (before, now) in enumerate(zip([x, *states], states, strict=False)):
        wide = now.astype(np.float64).ravel()
        assert (done.reductions["max"][t], done.reductions["min"][t]) == (now.max(), now.min())
        assert done.reductions["sum"][t] == math.fsum(wide)
        assert done.reductions["l2"][t] == math.sqrt(math.fsum(wide * wide))
        assert done.reductions["change"][t] == np.abs(now - before).max()
    assert (done.reductions["max"].dtype, done.reductions["sum"].dtype) == (np.float32, np.float64)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "uint8", "int64"])
@pytest.mark.parametrize("ndim", [1, 2])
def test_dtypes_and_time_order_two(dtype, ndim):
    shape = {1: (301,), 2: (37, 53)}[ndim]
    state = field(shape, dtype, 2), field(shape, dtype)
    weights = {at: float(i % 3 - 1) for i, at in enumerate(np.ndindex(*[3] * ndim))}
    weights = {tuple(i - 1 for i in at): w for at, w in weights.items() if w}
    states = history(weights, state, 6, "mirror")
    names = REDUCTIONS[2:] if np.dtype(dtype).kind == "c" else REDUCTIONS
    for method in ("al1", "al4"):
        done = fl.stencil(
            weights, state, 6, boundary="mirror", method=method, reductions=names,
            snapshots={"s": (2, np.s_[5:30:7])},
        )  # fmt: skip
        np.testing.assert_array_equal(done.snapshots["s"], np.stack([u[5:30:7] for u in states[1::2]]))
        for t, (before, now) in enumerate(zip([state[1], *states], states, strict=False)):
            for name in set(names) & {"max", "min"}:
                assert done.reductions[name][t] == getattr(now, name)()
            if np.dtype(dtype).kind in "iu":
                assert done.reductions["sum"][t] == now.sum(dtype=done.reductions["sum"].dtype)
                apart = np.maximum(now, before).astype(object) - np.minimum(now, before)
                assert done.reductions["change"][t] == max(apart.ravel())
            else:
                parts = [now.real, now.imag] if np.dtype(dtype).kind == "c" else [now]
                total = [math.fsum(part.ravel().astype(np.float64)) for part in parts]
                assert done.reductions["sum"][t] == (complex(*total) if len(total) == 2 else total[0])
                np.testing.assert_array_max_ulp(done.reductions["change"][t], np.abs(now - before).max(), 1)
            squares = [np.square(part.ravel().astype(np.float64)) for part in (now.real, now.imag)]
            assert done.reductions["l2"][t] == math.sqrt(math.fsum(np.concatenate(squares)))


def test_bits_for_limits_and_workers(tmp_path):
    """1e8, -1e8 and small numbers: a sum whose order showed would differ."""
    x = field((16, 64, 128), "float32")
    x *= np.float32(10) ** (np.arange(x.size, dtype=np.float32).reshape(x.shape) % 17 - 8)
    found = []
    options = {"reductions": REDUCTIONS, "snapshots": {"c": (5, np.s_[::3, :, 7])}}
    for more, workers in ((2 << 20, 1), (64 << 20, 4)):
        with fl.Runtime(workers=workers):
            for method in ("auto", "al1"):
                limit = fl.stencil.plan(heat(3), x, 12, method=method, **options).least_memory + more
                done = fl.stencil(heat(3), x, 12, method=method, memory=limit, **options)
                assert fl.stats().peak_memory <= limit
                found.append(
                    [
                        *(done.reductions[name].tobytes() for name in REDUCTIONS),
                        np.asarray(done.snapshots["c"]).tobytes(),
                    ]
                )
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("method", METHODS)
def test_ends_where_a_criterion_is_met(method, tmp_path):
    x = field((20, 30, 16))
    depth = 1 if method == "sweep" else 4
    options = {} if method == "sweep" else {"depth": depth}
    states = history(heat(3), x, 40, "neumann")
    changes = [np.abs(a - b).max() for a, b in zip(states, [x, *states], strict=False)]
    first = next(t for t, change in enumerate(changes, 1) if change <= 0.01)
    ends = -(-first // depth) * depth
    for out in (None, np.empty_like(x), tmp_path / f"{method}.zarr"):
        done = fl.stencil(
            heat(3), x, 40, boundary="neumann", method=method, until={"change": 0.01}, reductions="max",
            snapshots={"low": (3, np.s_[0])}, receivers=[(1, 2, 3)], out=out, **options,
        )  # fmt: skip
        assert done.steps == ends < 40
        np.testing.assert_array_equal(np.asarray(done.state), states[ends - 1])
        assert len(done.traces) == len(done.reductions["max"]) == ends
        np.testing.assert_array_equal(done.snapshots["low"], np.stack([u[0] for u in states[2:ends:3]]))


@pytest.mark.parametrize("method", METHODS)
def test_finds_the_first_nan(method):
    x = np.zeros((9, 14, 20), "float32")
    series = np.zeros(8, "float32")
    series[4] = np.inf
    with pytest.raises(fl.NumericalError, match=r"step 5 makes NaN or Inf, first at \(4, 3, 17\)"):
        fl.stencil(heat(3), x, 8, method=method, sources=[((4, 3, 17), series)], check=True)
    assert np.isinf(
        fl.stencil(heat(3), x, 8, method=method, sources=[((4, 3, 17), series)], reductions=["sum"])
        .reductions["sum"][-1]
    )  # fmt: skip


def test_what_xarray_opens(tmp_path):
    xarray = pytest.importorskip("xarray")
    x = field((12, 20, 30))
    path = tmp_path / "run.zarr"
    done = fl.stencil(
        heat(3), (x, x), 20, snapshots={"cut": (5, np.s_[2::3, 7, :])}, spacing=(10, 20, 0.5), dt=0.25,
        out=path,
        receivers=[(0, 0, 0)], reductions=["l2"],
    )  # fmt: skip
    seen = xarray.open_zarr(path, group="snapshots/cut", consolidated=False)["cut"]
    assert seen.dims == ("time", "z", "x")
    np.testing.assert_array_equal(seen, done.snapshots["cut"])
    np.testing.assert_array_equal(seen.time, [1.25, 2.5, 3.75, 5])
    np.testing.assert_array_equal(seen.z, 10 * np.arange(2, 12, 3))
    np.testing.assert_array_equal(seen.x, 0.5 * np.arange(30))
    whole = xarray.open_zarr(path, consolidated=False)
    np.testing.assert_array_equal(whole["now"], done.state[1])
    np.testing.assert_array_equal(whole["traces"], done.traces)
    np.testing.assert_array_equal(fl.open(path / "reductions" / "l2"), done.reductions["l2"])


def test_snapshots_read_nothing_and_shorten_nothing(tmp_path):
    x = fl.from_numpy(field((64, 96, 128)), tmp_path / "x.zarr")
    snapshots = {"cut": (8, np.s_[:, 48, :]), "volume": (32, np.s_[::4, ::4, ::4])}
    for method in ("al1", "al4"):
        # What a process grows by at its first call is no part of a plan.
        fl.stencil(heat(3), x, 32, method=method, depth=8, snapshots=snapshots)
        options = {"method": method, "depth": 8, "memory": _core.resident_bytes() + (64 << 20)}
        plain = fl.stencil.plan(heat(3), x, 32, out=tmp_path / "y.zarr", **options)
        seen = fl.stencil.plan(heat(3), x, 32, out=tmp_path / "y.zarr", snapshots=snapshots, **options)
        assert (seen.stencil.depth, seen.stencil.supersteps) == (8, 4)
        assert seen.stencil.elements_read == plain.stencil.elements_read
        assert seen.bytes_read <= 1.001 * plain.bytes_read
        written = fl.stencil(heat(3), x, 32, snapshots=snapshots, out=tmp_path / f"{method}.zarr", **options)
        kept = sum(array.nbytes for array in written.snapshots.values())
        assert seen.bytes_written <= plain.bytes_written + kept + (64 << 10)
        assert abs(fl.stats().bytes_read - seen.bytes_read) <= 0.01 * seen.bytes_read


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"snapshots": [1]}, "snapshots is"),
        ({"snapshots": {"a/b": 1}}, "has the name"),
        ({"snapshots": {"time": 1}}, "no name of a coordinate"),
        ({"snapshots": {"a": "x"}}, "snapshot 'a' is 'x'"),
        ({"snapshots": {"a": 0}}, "1 or more"),
        ({"snapshots": {"a": 99}}, "has no step among"),
        ({"snapshots": {"a": ([1, 9], ...)}}, "5 at most"),
        ({"snapshots": {"a": (1, np.s_[0, 0, 0])}}, "2 dimensions"),
        ({"snapshots": {"a": (1, np.s_[8])}}, "index 8 along an axis of 8"),
        ({"snapshots": {"a": (1, np.s_[::-1])}}, "forward steps"),
        ({"snapshots": {"a": (1, np.s_[3:3])}}, "holds no point"),
        ({"snapshots": {"a": (1, "b")}}, "whole numbers and slices"),
        ({"snapshots": {"a": (1, True)}}, "whole numbers and slices"),
        ({"reductions": ["mean"]}, "no reduction 'mean'"),
        ({"reductions": 3}, "a list of names"),
        ({"until": 3}, "a mapping such as"),
        ({"until": {"change": "x"}}, "a finite number"),
        ({"check": 3}, "True or False"),
        ({"spacing": 0}, "spacing"),
        ({"dt": "x"}, "dt is"),
    ],
)
def test_refusals(given, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        fl.stencil(heat(2), field((8, 9)), 5, **given)


def test_snapshots_of_a_wave_are_in_seconds_and_metres():
    velocity = np.full((40, 60), 2000.0, "f4")
    shot = fl.wave(
        velocity, 40, spacing=(5, 10), sources=[(20, 30)], frequency=20.0, receivers=[(20, 31)],
        snapshots={"all": 20, "row": (1, np.s_[20, 31])},
    )  # fmt: skip
    np.testing.assert_array_equal(np.asarray(shot.snapshots["all"][1]), shot.state[1])
    np.testing.assert_array_equal(shot.snapshots["row"], shot.traces[:, 0])
    group = fl.open(str(shot.snapshots["all"].path).removesuffix("/all") + "/time")
    np.testing.assert_array_equal(group, shot.dt * np.array([20, 40]))
