"""Several named fields, stages that replace some of them: bits of NumPy's sweeps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flagstone as fl
from tests.stencil.oracle import Ghosted, as_edges
from tests.stencil.test_stencil import field

FEED, KILL = np.float32(0.04), np.float32(0.06)


def react(u, v):
    """Gray and Scott: two substances that react and spread."""
    around_u = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    around_v = v[-1, 0] + v[1, 0] + v[0, -1] + v[0, 1] - 4 * v[0, 0]
    made = u[0, 0] * v[0, 0] * v[0, 0]
    return {
        "u": u[0, 0] + 0.16 * around_u - made + 0.04 * (1 - u[0, 0]),
        "v": v[0, 0] + 0.08 * around_v + made - 0.1 * v[0, 0],
    }


def push(p, q, c):
    return {"q": q[0, 0] - c * (p[0, 1] - p[0, 0])}


def squeeze(q, p):
    return {"p": p[0, 0] - 0.5 * (q[0, 0] - q[0, -1]) + 0.0625 * (q[2, 0] - q[-1, 1])}


def stepped(stages, state, steps, boundary, coefficients=(), add=None):
    state = dict(state)
    history = []
    for t in range(steps):
        for stage, names in stages:
            seen = {name: Ghosted(values, as_edges(boundary, 2)) for name, values in state.items()}
            found = stage(
                *(seen[name] for name in names), *coefficients[: len(coefficients) * (stage is push)]
            )
            state.update({name: np.asarray(values, state[name].dtype) for name, values in found.items()})
        if add is not None:
            name, index, series = add
            state[name] = state[name].copy()
            state[name][index] += series[t]
        history.append(dict(state))
    return history


SCHEMES = [
    {"method": "sweep"},
    {"method": "al1", "depth": 3},
    {"method": "al1", "block": (7, 9), "depth": 4},
    {"method": "al2", "block": (12, 31), "depth": 4, "cache_block": (5, 7, 2)},
    {"method": "al4", "depth": 3},
    {"method": "al4", "depth": 4, "cache_block": (5, 6, 2)},
    {"method": "auto"},
]


@pytest.mark.parametrize("boundary", ["periodic", [("mirror", {"fixed": 0.5}), "neumann"]], ids=str)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_gray_scott(scheme, boundary, tmp_path):
    state = {"u": field((23, 31)) * 0.1 + 1, "v": np.abs(field((23, 31), seed=2)) * np.float32(0.2)}
    with np.errstate(all="ignore"):
        history = stepped([(react, "uv")], state, 9, boundary)
    done = fl.stencil(
        react, state, 9, boundary=boundary, receivers=[("v", 3, 4), (5, 6)],
        snapshots={"v": (4, "v", np.s_[::3, 2:]), "first": 9}, out=tmp_path / "run.zarr", **scheme,
    )  # fmt: skip
    assert list(done.state) == ["u", "v"]
    for name in state:
        np.testing.assert_array_equal(np.asarray(done.state[name]), history[-1][name])
    np.testing.assert_array_equal(done.snapshots["v"], np.stack([h["v"][::3, 2:] for h in history[3::4]]))
    np.testing.assert_array_equal(done.snapshots["first"][0], history[-1]["u"])
    np.testing.assert_array_equal(done.traces[:, 0], [h["v"][3, 4] for h in history])
    np.testing.assert_array_equal(done.traces[:, 1], [h["u"][5, 6] for h in history])
    inside = {path.name for path in (tmp_path / "run.zarr").iterdir() if path.is_dir()}
    assert {"snapshots", "traces", "u", "v"} <= inside


@pytest.mark.parametrize(
    ("dtype", "boundary"),
    [
        ("float32", "periodic"), ("float64", "fixed"),
        ("float32", [("neumann", "mirror"), ({"fixed": 1.5}, "mirror")]),
    ], ids=str,
)  # fmt: skip
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_two_stages_of_different_radius(scheme, boundary, dtype):
    """A stage sees what the one before it made, and none of its own results."""
    state = {"p": field((19, 27), dtype), "q": field((19, 27), dtype, 4)}
    c = np.abs(field((27,), dtype, 5))
    series = np.linspace(-1, 1, 8).astype(dtype)
    wanted = stepped([(push, "pq"), (squeeze, "qp")], state, 8, boundary, [c], ("q", (4, 20), series))[-1]
    out = {name: np.full_like(values, 77) for name, values in state.items()}
    stages = [push, lambda p, q: squeeze(q, p)]
    with fl.Runtime(workers=3):
        done = fl.stencil(
            stages, state, 8, boundary=boundary, coefficients=c, sources=[(("q", 4, 20), series)],
            out=out, **scheme,
        )  # fmt: skip
    for name in state:
        assert done.state[name] is out[name]
        np.testing.assert_array_equal(out[name], wanted[name])


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[3], SCHEMES[5]], ids=str)
def test_reductions_of_fields(scheme, tmp_path):
    """One value a step of each field, and the loop ends where one of them says so."""
    state = {"u": field((23, 31)) * 0.1 + 1, "v": np.abs(field((23, 31), seed=2)) * np.float32(0.2)}
    history = stepped([(react, "uv")], state, 12, "mirror")
    asked = ["sum", ("v", "max"), ("v", "change"), ("u", "l2")]
    seen = [np.abs(a["v"] - b["v"]).max() for a, b in zip(history, [state, *history], strict=False)]
    done = fl.stencil(
        react, state, 12, boundary="mirror", reductions=asked, until={("v", "change"): float(seen[5])},
        out=tmp_path / "run.zarr", **scheme,
    )  # fmt: skip
    first = next(t for t, change in enumerate(seen, 1) if change <= seen[5])
    assert first <= done.steps < first + scheme.get("depth", 1 if scheme["method"] == "sweep" else 12)
    assert list(done.reductions) == asked
    for t, now in enumerate(history[: done.steps]):
        wide = {name: values.astype(float).ravel() for name, values in now.items()}
        assert done.reductions["sum"][t] == math.fsum(wide["u"])
        assert done.reductions["u", "l2"][t] == math.sqrt(math.fsum(wide["u"] ** 2))
        assert done.reductions["v", "max"][t] == now["v"].max()
        assert done.reductions["v", "change"][t] == seen[t]
    for name, where in [("sum", "u/sum"), (("v", "max"), "v/max")]:
        kept = fl.open(tmp_path / "run.zarr" / "reductions" / where)
        np.testing.assert_array_equal(kept, done.reductions[name])
    np.testing.assert_array_equal(done.state["v"], history[done.steps - 1]["v"])


@pytest.mark.parametrize(
    "scheme",
    [{"method": "al4", "cache_block": (3, 13, 2)}, {"method": "al2", "cache_block": (4, 9, 2)}],
    ids=str,
)
def test_stages_of_which_one_field_is_read_late(scheme):
    """A source on a field that an early stage replaces, a field that none does: as plain sweeps have them."""
    state = {name: field((11, 34, 9), seed=i) for i, name in enumerate("pqr")}

    def first(p, q, r):
        return {"q": q[0, 0, 0] - 0.3 * (p[0, 0, 1] - p[0, 0, 0]) + 0.1 * p[0, -1, 0] * r[1, 0, 0]}

    def second(p, q):
        return {"p": p[0, 0, 0] - 0.2 * (q[0, 0, 0] - q[0, 2, -1]) + 0.05 * q[-1, 1, 0]}

    series = np.linspace(-1, 1, 7).astype("f4")
    given = {
        "sources": [(("q", 5, 20, 3), series), (("r", 0, 1, 2), series)],
        "receivers": [("q", 5, 20, 3), ("p", 2, 3, 4)],
        "boundary": ["mirror", ("fixed", "neumann"), "periodic"],
        "reductions": [("q", "change"), ("p", "sum")],
        "snapshots": {"r": (2, "r", np.s_[:, 1])},
    }  # fmt: skip
    plain = fl.stencil([first, second], state, 7, method="sweep", **given)
    with fl.Runtime(workers=3):
        done = fl.stencil([first, second], state, 7, depth=4, **given, **scheme)
        told = fl.stats().stencil
    assert told.method == scheme["method"]
    assert (told.face_elements > 0) == (told.method == "al4")
    for name in state:
        np.testing.assert_array_equal(done.state[name], plain.state[name])
    np.testing.assert_array_equal(done.traces, plain.traces)
    np.testing.assert_array_equal(done.snapshots["r"], plain.snapshots["r"])
    for key, values in plain.reductions.items():
        np.testing.assert_array_equal(done.reductions[key], values)


def test_first_nan_of_fields():
    state = {"u": field((9, 14)), "v": field((9, 14), seed=2)}
    series = np.zeros(6, "f4")
    series[3] = np.nan
    with pytest.raises(
        fl.NumericalError, match=r"step 4 makes NaN or Inf, first at \(5, 7\) of the field 'v'"
    ):
        fl.stencil(react, state, 6, sources=[(("v", 5, 7), series)], check=True)
    with pytest.raises(ValueError, match="there are 2: leave the method out"):
        fl.stencil([react, react], state, 3, method="al4", boundary={"fixed": float})
    with pytest.raises(ValueError, match="2 stages replace the field 'u'"):
        fl.stencil([react, react], state, 3, reductions=["change"])


def test_one_named_field(tmp_path):
    x = field((8, 9))
    for out in (None, {"state": np.empty_like(x)}, tmp_path / "one.zarr"):
        done = fl.stencil(lambda state, by=2: {"state": by * state[0, 1]}, {"state": x}, 1, out=out)
        np.testing.assert_array_equal(done.state["state"], np.pad(2 * x[:, 1:], ((0, 0), (0, 1))))
    assert fl.open(tmp_path / "one.zarr" / "state").shape == x.shape


def test_what_fields_refuse():
    state = {"u": field((8, 9)), "v": field((8, 9))}
    for given, sentence in [
        (({"u": 1}, state), "a function of these"),
        ((lambda u, w: {"u": u[0, 0]}, state), "a parameter 'w', which is no field"),
        ((lambda u: u[0, 0], state), "a dict of the fields"),
        ((lambda u: {"x": u[0, 0]}, state), "a dict of the fields"),
        ((react, {"u": state["u"], "v": field((8, 8))}), "all must be equal"),
        ((react, {"a b": state["u"]}), "names that a function"),
        ((react, {}), "names that a function"),
        ((react, {"u": state["u"], "traces": state["v"]}), "none of 'snapshots'"),
        ((lambda *u: {"u": u[0]}, state), "whose parameters have no names"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            fl.stencil(*given, 3)
    for options, sentence in [
        ({"method": "al3"}, "al3 takes one field"),
        ({"reductions": [("w", "max")]}, "choose among u, v"),
        ({"reductions": [("u", "mean")]}, "no reduction 'mean'"),
        ({"receivers": [("w", 1, 1)]}, "choose among u, v"),
        ({"snapshots": {"a": (1, "w", ...)}}, "choose among u, v"),
        ({"out": {"u": state["u"]}}, "a dict of the fields u, v"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            fl.stencil(react, state, 3, **options)
