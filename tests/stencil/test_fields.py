"""Several named fields, stages that replace some of them: bits of NumPy's sweeps."""

from __future__ import annotations

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import flagstone as fl
from tests.stencil.oracle import Ghosted, as_edges
from tests.stencil.test_stencil import field
from tests.support.examples import examples

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
    {"method": "al3", "depth": 3},
    {"method": "al3", "block": (7, 9), "depth": 4, "cache_block": (3, 5, 1)},
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


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[3], SCHEMES[5], SCHEMES[7]], ids=str)
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
    [
        {"method": "al4", "cache_block": (3, 13, 2)},
        {"method": "al2", "cache_block": (4, 9, 2)},
        {"method": "al3", "block": (4, 12, 9), "cache_block": (2, 5, 1)},
    ],
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


SIDES = ("neumann", "mirror", "fixed", {"fixed": 1.5})
NAMES = "pqr"


def stage_of(fields, made):
    """A kernel of the fields: each of `made` becomes a sum of neighbours, (field, offset, weight) each."""

    def values(*given):
        seen = dict(zip(fields, given, strict=True))
        found = {}
        for name, terms in made.items():
            total = seen[name][0, 0] * 0.5
            for other, at, weight in terms:
                total = total + weight * seen[other][at]
            found[name] = total
        return found

    kernels = {1: lambda p: values(p), 2: lambda p, q: values(p, q), 3: lambda p, q, r: values(p, q, r)}
    return kernels[len(fields)]


@st.composite
def systems(draw):
    """Stages over one to three fields, and how al3 goes through them."""
    fields = NAMES[: draw(st.integers(1, 3))]
    offsets = st.tuples(st.integers(-2, 2), st.integers(-2, 2))
    terms = st.lists(
        st.tuples(st.sampled_from(fields), offsets, st.sampled_from((0.125, -0.25, 0.0625))), max_size=3
    )
    stages = draw(
        st.lists(st.dictionaries(st.sampled_from(fields), terms, min_size=1), min_size=1, max_size=3)
    )
    shape = draw(st.tuples(st.integers(3, 24), st.integers(3, 30)))
    steps = draw(st.integers(1, 7))
    options = {"depth": draw(st.integers(1, steps)), "method": "al3"}
    if draw(st.booleans()):
        options["block"] = tuple(draw(st.integers(3, n)) for n in shape)
        options["cache_block"] = (draw(st.integers(1, 6)), draw(st.integers(1, 9)), 1)
    boundary = [
        "periodic" if draw(st.booleans()) else (draw(st.sampled_from(SIDES)), draw(st.sampled_from(SIDES)))
        for _ in shape
    ]
    point = tuple(draw(st.integers(0, n - 1)) for n in shape)
    return {
        "fields": fields, "stages": stages, "shape": shape, "steps": steps, "boundary": boundary,
        "options": options, "point": point, "source": draw(st.sampled_from((None, *fields))),
        "workers": draw(st.sampled_from((1, 3))),
    }  # fmt: skip


@examples(60)
@hypothesis.given(loop=systems())
def test_any_system_has_the_bits_of_plain_sweeps(loop):
    """Fields that one, none or several stages replace; sources; steps told of; ragged tiles and depths."""
    fields, steps, point = loop["fields"], loop["steps"], loop["point"]
    stages = [stage_of(fields, made) for made in loop["stages"]]
    state = {name: field(loop["shape"], seed=i) for i, name in enumerate(fields)}
    series = np.linspace(-1, 1, steps).astype("f4")
    source = loop["source"] and (loop["source"], point, series)
    history = stepped([(stage, fields) for stage in stages], state, steps, loop["boundary"], add=source)
    once = [name for name in fields if sum(name in made for made in loop["stages"]) == 1]
    with fl.Runtime(workers=loop["workers"]):
        done = fl.stencil(
            stages, state, steps, boundary=loop["boundary"],
            sources=[((source[0], *point), series)] if source else (),
            receivers=[(name, *point) for name in fields],
            snapshots={"one": (2, fields[-1], np.s_[::2, 1:])} if steps > 1 else None,
            reductions=[(name, "change") for name in once] + [(fields[0], "max")], **loop["options"],
        )  # fmt: skip
        told = fl.stats().stencil
    for name in fields:
        np.testing.assert_array_equal(done.state[name], history[-1][name], err_msg=name)
    for i, name in enumerate(fields):
        np.testing.assert_array_equal(done.traces[:, i], [now[name][point] for now in history])
    if steps > 1:
        wanted = np.stack([now[fields[-1]][::2, 1:] for now in history[1::2]])
        np.testing.assert_array_equal(done.snapshots["one"], wanted)
    for name in once:
        changes = [np.abs(a[name] - b[name]).max() for a, b in zip(history, [state, *history], strict=False)]
        np.testing.assert_array_equal(done.reductions[name, "change"], changes)
    block = loop["options"].get("block", loop["shape"])
    cut = [
        b < n and rule == "periodic"
        for b, n, rule in zip(block, loop["shape"], loop["boundary"], strict=True)
    ]
    assert told.method == "al3"
    assert any(cut) or told.updates == told.useful_updates


def test_packed_fields_inside_the_least_limit(tmp_path):
    """Chunks read whole, results written by chunks; what does not fit goes through scratch."""
    shape = (40, 96, 256)
    state = {name: field(shape, seed=i) for i, name in enumerate("pq")}
    packed = {
        name: fl.from_numpy(x, tmp_path / f"{name}.zarr", chunks=(7, 32, 64), codec="zstd")
        for name, x in state.items()
    }

    def push(p, q):
        return {"q": q[0, 0, 0] - 0.3 * (p[0, 0, 1] - p[0, 0, 0])}

    def squeeze(p, q):
        return {"p": p[0, 0, 0] - 0.2 * (q[0, 0, 0] - q[0, -1, 0]) + 0.05 * q[-1, 0, 0]}

    given = [push, squeeze], packed, 6
    options = {"boundary": ["mirror", "neumann", "periodic"], "method": "al3", "depth": 3}
    out = {name: np.empty_like(x) for name, x in state.items()}
    fl.stencil([push, squeeze], state, 6, method="sweep", boundary=options["boundary"], out=out)
    for i, more in enumerate((4 << 20, 300 << 20)):
        limit = fl.stencil.plan(*given, **options).least_memory + more
        made = fl.stencil(*given, memory=limit, out=tmp_path / f"o{i}.zarr", **options)
        done = fl.stats()
        assert done.peak_memory <= limit
        assert done.stencil.updates == done.stencil.useful_updates
        assert (done.stencil.held_planes == shape[0]) == (more > 100 << 20)
        for name, wanted in out.items():
            np.testing.assert_array_equal(np.asarray(made.state[name]), wanted)


def test_first_nan_of_fields():
    state = {"u": field((9, 14)), "v": field((9, 14), seed=2)}
    series = np.zeros(6, "f4")
    series[3] = np.nan
    with pytest.raises(
        fl.NumericalError, match=r"step 4 makes NaN or Inf, first at \(5, 7\) of the field 'v'"
    ):
        fl.stencil(react, state, 6, sources=[(("v", 5, 7), series)], check=True)
    for method in ("al3", "al4"):
        with pytest.raises(
            ValueError, match=f"{method} takes of one stage; there are 2: leave the method out"
        ):
            fl.stencil([react, react], state, 3, method=method, boundary={"fixed": float})
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
        ((lambda u: {"u": 1j * u[0, 0]}, state), "makes complex64 of a field of float32"),
        ((lambda u: {"u": 1j}, state), "a number of float32 is needed"),
        ((lambda u: {"u": u[0, 1] * field((8, 9))}, state), "an array of its own, 8 x 9 float32"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            fl.stencil(*given, 3)
    for options, sentence in [
        ({"reductions": [("w", "max")]}, "choose among u, v"),
        ({"reductions": [("u", "mean")]}, "no reduction 'mean'"),
        ({"receivers": [("w", 1, 1)]}, "choose among u, v"),
        ({"snapshots": {"a": (1, "w", ...)}}, "choose among u, v"),
        ({"out": {"u": state["u"]}}, "a dict of the fields u, v"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            fl.stencil(react, state, 3, **options)
