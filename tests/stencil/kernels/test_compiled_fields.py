"""Stages of fields as machine code: traced functions by LLVM, functions of rows by Numba; NumPy's bits."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.stencil.oracle import as_edges, stages_swept
from tests.stencil.test_stencil import field
from tests.support.error_sentences import fails
from tests.support.examples import examples

pytest.importorskip("numba")

A, B, FOUR, ONE = (np.float32(x) for x in (0.16, 0.08, 4, 1))


def react(u, v):  # Gray and Scott
    around_u = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    around_v = v[-1, 0] + v[1, 0] + v[0, -1] + v[0, 1] - 4 * v[0, 0]
    made = u[0, 0] * v[0, 0] * v[0, 0]
    return {"u": u[0, 0] + 0.16 * around_u - made, "v": v[0, 0] + 0.08 * around_v + made * (1 - u[0, 0])}


def react_rows(to_u, to_v, u, v):
    for i in range(len(to_u)):
        x, y = u[1][i + 1], v[1][i + 1]
        around_u = u[0][i + 1] + u[2][i + 1] + u[1][i] + u[1][i + 2] - FOUR * x
        around_v = v[0][i + 1] + v[2][i + 1] + v[1][i] + v[1][i + 2] - FOUR * y
        made = x * y * y
        to_u[i], to_v[i] = x + A * around_u - made, y + B * around_v + made * (ONE - x)


def push(p, q, c):
    return {"q": q[0] - c * (p[1] - p[0])}


def push_rows(to_q, p, q, c):
    for i in range(len(to_q)):
        to_q[i] = q[i + 1] - c[i] * (p[i + 2] - p[i + 1])


def squeeze(q, p, c, d):  # coefficients in order, whichever fields stand before them
    return {"p": d * p[0] - 0.5 * (q[0] - q[-1]) + 0.0625 * (q[2] - q[-2])}


def squeeze_rows(to_p, p, q, c, d):
    for i in range(len(to_p)):
        to_p[i] = d[i] * p[i + 2] - 0.5 * (q[i + 2] - q[i + 1]) + 0.0625 * (q[i + 4] - q[i])


def mixed(p, q, r):  # integers wrap around
    return {"q": (q[0, 0, 0] ^ r[0, 0, 1]) + p[-1, 0, 0], "p": p[0, 0, 0] * 3 - q[1, 0, 0] + r[0, -1, 0]}


def mixed_rows(to_q, to_p, p, q, r):
    for i in range(len(to_q)):
        to_q[i] = (q[1][1][i + 1] ^ r[1][1][i + 2]) + p[0][1][i + 1]
        to_p[i] = p[1][1][i + 1] * 3 - q[2][1][i + 1] + r[1][0][i + 1]


def gathered(p, q, r):
    return {"r": r[0, 0, 0] - (p[0, 1, -1] + q[0, 0, 0])}


def gathered_rows(to_r, p, q, r):
    for i in range(len(to_r)):
        to_r[i] = r[1][1][i + 1] - (p[1][2][i] + q[1][1][i + 1])


#: stages, functions of rows that say the same (which, radius, what they make), fields, dtype, coefficients
CASES = {
    "react": ([react], [(react_rows, (1, 1), None)], "uv", "float32", 0),
    "staggered": ([push, squeeze], [(push_rows, (1,), "q"), (squeeze_rows, (2,), "p")], "pq", "float64", 2),
    "mixed": (
        [mixed, gathered], [(mixed_rows, (1, 1, 1), "qp"), (gathered_rows, (1, 1, 1), "r")],
        "pqr", "int32", 0,
    ),
}  # fmt: skip
METHODS = ("sweep", "al1", "al2", "al3", "al4")
SIDES = ("neumann", "mirror", "fixed", {"fixed": 2})
_rows = {}


def of_rows(name):
    """Stages as functions of rows, compiled once."""
    if name not in _rows:
        _, functions, names, dtype, _ = CASES[name]
        _rows[name] = []
        for function, radius, made in functions:
            told = {"fields": tuple(names), "replaces": tuple(made or names), "dtype": dtype}
            told["coefficients"] = function.__code__.co_argcount - len(names) - len(told["replaces"])
            _rows[name].append(fl.row_kernel(function, radius, **told))
    return _rows[name]


@st.composite
def loops(draw):
    name = draw(st.sampled_from(sorted(CASES)))
    ndim = {"react": 2, "staggered": 1, "mixed": 3}[name]
    shape = tuple(draw(st.integers(1, {1: 9000, 2: 40, 3: 14}[ndim])) for _ in range(ndim))
    steps = draw(st.integers(1, 7))
    method = draw(st.sampled_from(METHODS))
    options = {"method": method, "depth": None if method == "sweep" else draw(st.integers(1, steps))}
    if method in ("al2", "al4"):
        options["cache_block"] = [draw(st.integers(1, 12)) for _ in range(3)]
    if method != "al4" and draw(st.booleans()):
        options["block"] = [draw(st.integers(max(1, n // 5), n + 2)) for n in shape]
    boundary = [
        "periodic" if draw(st.booleans()) else (draw(st.sampled_from(SIDES)), draw(st.sampled_from(SIDES)))
        for _ in shape
    ]
    return {
        "name": name, "shape": shape, "steps": steps, "boundary": boundary, "options": options,
        "way": draw(st.sampled_from(("compiled", "rows", "both"))),
        "narrow": draw(st.booleans()),  # a coefficient that is one number for all
        "workers": draw(st.sampled_from((1, 2, 4))),
    }  # fmt: skip


@examples(160)
@given(loop=loops())
def test_machine_code_has_the_bits_of_plain_sweeps(loop):
    traced, _, names, dtype, given = CASES[loop["name"]]
    shape, steps = loop["shape"], loop["steps"]
    scale = 1 if dtype == "int32" else np.asarray(0.2, dtype)
    state = {name: scale * field(shape, dtype, seed) for seed, name in enumerate(names)}
    c = 0.1 * field(shape, dtype, 8)
    coefficients = [c[:1] if loop["narrow"] else c, np.ones(1, dtype)][:given]
    with np.errstate(all="ignore"):
        wanted = stages_swept(traced, state, steps, as_edges(loop["boundary"], len(shape)), coefficients)
    stages = traced if loop["way"] == "compiled" else of_rows(loop["name"])
    if loop["way"] == "both":  # each kind beside the other
        stages = [*stages[:1], *traced[1:]]
    with pytest.MonkeyPatch.context() as patch, fl.Runtime(workers=loop["workers"]):
        patch.setenv("FLAGSTONE_COMPILE", "1")
        done = fl.stencil(
            stages, state, steps, boundary=loop["boundary"], coefficients=coefficients, **loop["options"]
        )
        what = fl.stats().what
    for name in names:
        np.testing.assert_array_equal(np.asarray(done.state[name]), wanted[name])
    assert "fused" not in what
    assert ("compiled function" in what) == any(stage in traced for stage in stages), what
    assert ("of rows" in what) == (loop["way"] != "compiled"), what


def test_fused_and_compiled_stages_have_the_same_bits(monkeypatch):
    """What NumPy has no bits for: NaN, infinities, verbs that are one instruction, a number as a result."""

    def limited(u, v):
        slope = fl.where(u[1] > v[0], np.sqrt(abs(u[1])), -v[-1]) / (1 + u[0] * u[0])
        return {"u": np.maximum(np.minimum(slope, 0.5), -(u[0] ** 2)), "v": 2}

    rng = np.random.default_rng(4)
    u, v = rng.standard_normal((2, 5001))
    u[::7], u[::11], v[::13] = np.nan, np.inf, -np.inf
    made = []
    for asked in "01":
        monkeypatch.setenv("FLAGSTONE_COMPILE", asked)
        made.append(fl.stencil([limited, limited], {"u": u, "v": v}, 3).state)
        assert ("compiled function" in fl.stats().what) == (asked == "1")
    np.testing.assert_array_equal(made[0]["u"], made[1]["u"])
    np.testing.assert_array_equal(made[1]["v"], np.full(5001, 2.0))


def test_the_plan_says_how_stages_run(monkeypatch):
    state = {"u": fl.zeros((2000, 1000), "f4"), "v": fl.zeros((2000, 1000), "f4")}
    plan = fl.stencil.plan(react, state, 50)
    assert "50 steps of one stage of 2 fields: compiled function of 10 operands, fixed" in plan.what
    assert "compiled function of 10 operands" in plan.note
    plan = fl.stencil.plan(react, state, 2)  # of itself a small loop is not worth it
    assert "one stage of 2 fields: fused expression of 10 operands, fixed" in plan.what
    monkeypatch.setenv("FLAGSTONE_COMPILE", "1")
    stages = [react, *of_rows("react"), lambda u, v: {"v": np.exp(v[1, 0]) + u[0, 0]}]
    told = (
        "3 stages of 2 fields: compiled function of 10 operands and function react_rows of rows and fused "
        "expression of 2 operands (not compiled: verbs or dtypes without an instruction of their own), fixed"
    )
    assert told in fl.stencil.plan(stages, state, 2).what
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    plan = fl.stencil.plan(lambda u, v: {"v": 7 * v[1, 0] + u[0, 0]}, state, 2)
    assert "(not compiled: Numba's llvmlite is not installed" in plan.what


@pytest.mark.parametrize("method", METHODS)
def test_fields_on_disk_in_the_least_limit(method, tmp_path, monkeypatch):
    """LLVM, whose 100 MB would not fit, compiles in a child process; so far not this one."""
    monkeypatch.setenv("FLAGSTONE_COMPILE", "1")
    factor = 0.001 * (1 + METHODS.index(method))

    def drift(u, v):
        return {"u": u[0, 0] + factor * v[0, 1], "v": v[0, 0] - factor * u[-1, 0]}

    state = {name: field((301, 517), seed=seed) for seed, name in enumerate("uv")}
    wanted = stages_swept([drift], state, 5, as_edges("mirror", 2))
    given = {name: fl.from_numpy(x, tmp_path / f"{name}.zarr") for name, x in state.items()}
    options = {"method": method, "boundary": "mirror"}
    least = fl.stencil.plan(drift, given, 5, **options).least_memory + (4 << 20)
    before = set(sys.modules)
    done = fl.stencil(drift, given, 5, memory=least, out=tmp_path / "o.zarr", **options)
    told = fl.stats()
    assert "compiled function of 4 operands" in told.what
    assert told.peak_memory <= least
    assert not any(name.startswith("llvmlite.binding") for name in set(sys.modules) - before)
    for name in state:
        np.testing.assert_array_equal(np.asarray(done.state[name]), wanted[name])


def swap(to_u, to_v, u, v):
    for i in range(len(to_u)):
        to_u[i], to_v[i] = v[i], u[i + 2]


def test_what_functions_of_rows_of_fields_refuse():
    make, state = fl.row_kernel, {"u": np.ones(9), "v": np.ones(9)}
    with fails(ValueError, "row_kernel", "fields is 'uv'; names of fields, each once"):
        make(swap, (1,), fields="uv")
    with fails(ValueError, "row_kernel", r"fields is \('u', 'u'\); names of fields, each once"):
        make(swap, (1,), fields=("u", "u"))
    with fails(ValueError, "row_kernel", r"replaces is \('a b',\); names of fields"):
        make(swap, (1,), fields=("u",), replaces=("a b",))
    with fails(ValueError, "row_kernel", r"replaces is \(\) and fields \('u', 'v'\); names of fields that"):
        make(swap, (1,), fields=("u", "v"), replaces=())
    with fails(ValueError, "row_kernel", "order is 2, which several fields have not"):
        make(swap, (1,), fields=("u", "v"), order=2)
    swapped = make(swap, (1,), fields=("u", "v"))
    with fails(ValueError, "stencil", "the kernel is of the fields u, v and the state is no dict"):
        fl.stencil(swapped, state["u"], 1)
    with fails(ValueError, "stencil", "the kernel is of the fields u, v and the state has u, w"):
        fl.stencil(swapped, {"u": state["u"], "w": state["v"]}, 1)
    with fails(ValueError, "stencil", "is for 1 axes, float64 and 0 coefficients; the state has 1 axes, fl"):
        fl.stencil(swapped, {name: x.astype("f4") for name, x in state.items()}, 1)
    with fails(ValueError, "stencil", "is for 1 axes, float64 and 2 coefficients; the state has 1 axes, fl"):
        fl.stencil(of_rows("staggered")[1], {"p": state["u"], "q": state["v"]}, 1, coefficients=np.ones(9))
    assert repr(swapped) == "<RowKernel swap: radius (1,), float64, fields u, v>"
    assert swapped.flops == 2 * 3 * 2
