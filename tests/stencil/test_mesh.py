"""Time loops on meshes of subdomains: the bits of loops without one, sleeves as counted, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone._cli import cli
from tests.stencil.test_stencil import METHODS, box, check, field, heat
from tests.support.error_sentences import fails
from tests.support.examples import examples

MESHES = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 2))
SIDES = ("neumann", "mirror", "fixed", {"fixed": 1.5})


def parts(shape, mesh, periodic):
    """Extents of each rank's core, and on how many sides it has a neighbour."""
    for i in range(mesh[0]):
        for j in range(mesh[1]):
            at = (i, j)
            n = [(k + 1) * shape[d] // mesh[d] - k * shape[d] // mesh[d] for d, k in enumerate(at)]
            sides = [
                sum(periodic[d] or 0 <= k + s < mesh[d] for s in (-1, 1)) if mesh[d] > 1 else 0
                for d, k in enumerate(at)
            ]
            yield n, sides


def sleeves(shape, mesh, h, t, periodic=(False, False)):
    """Elements that a superstep of t steps moves, by the paper's formula.

    2 h t n_y/P_y n_x a rank along z, and along y 2 h t (n_z/P_z + 2 h t) n_x; at true edges half of it, and
    no sleeve to be taken along.
    """
    rest, total = int(np.prod(shape[2:])), 0
    for n, sides in parts(shape, mesh, periodic):
        total += sides[0] * h * t * n[1] * rest + sides[1] * h * t * (n[0] + sides[0] * h * t) * rest
    return total


def updates(shape, mesh, h, t, periodic):
    """What a superstep computes where nothing is computed twice inside a rank: h (t - s) beyond cores."""
    return sum(
        int(np.prod([n[d] + sides[d] * h * (t - s) for d in (0, 1)])) * int(np.prod(shape[2:]))
        for n, sides in parts(shape, mesh, periodic)
        for s in range(1, t + 1)
    )


@st.composite
def loops(draw):
    """A loop on a mesh: shape, kernel, state, boundary, method, depth, mesh, workers."""
    ndim = draw(st.sampled_from((2, 3)))
    mesh = draw(st.sampled_from(MESHES))
    radius, steps = draw(st.integers(1, 4 if ndim == 2 else 2)), draw(st.integers(1, 7))
    depth = draw(st.integers(1, min(steps, 3)))
    least = [p * radius * depth if p > 1 else 1 for p in mesh] + [1]
    shape = tuple(n + draw(st.integers(0, 5)) for n in least[:ndim])
    boundary = [
        "periodic" if draw(st.booleans()) else (draw(st.sampled_from(SIDES)), draw(st.sampled_from(SIDES)))
        for _ in shape
    ]
    return {
        "shape": shape, "mesh": mesh, "radius": radius, "steps": steps, "depth": depth, "boundary": boundary,
        "method": draw(st.sampled_from(METHODS)), "order": draw(st.sampled_from((1, 2))),
        "star": draw(st.booleans()), "given": draw(st.booleans()),
        "workers": draw(st.sampled_from((1, 2, 4))),
    }  # fmt: skip


@examples(100)
@given(loop=loops())
def test_any_mesh_has_the_bits_of_plain_sweeps(loop):
    """Stars and boxes (corners come in two phases), mixed edges, sources in sleeves, receivers anywhere."""
    shape, ndim = loop["shape"], len(loop["shape"])
    kernel = box(ndim, loop["radius"])
    if loop["star"]:
        kernel = {at: w for at, w in kernel.items() if np.count_nonzero(at) < 2}
    kernel = {at: w / 8 for at, w in kernel.items()}
    state = field(shape) if loop["order"] == 1 else (field(shape, seed=2), field(shape))
    corner, middle = tuple(n - 1 for n in shape), tuple(n // 2 for n in shape)
    options = {"depth": None if loop["method"] == "sweep" else loop["depth"], "method": loop["method"]}
    if loop["given"]:
        options["coefficients"] = [0.1 * field(shape, seed=5)]
    with fl.Runtime(workers=loop["workers"]):
        made = check(
            kernel, state, loop["steps"], loop["boundary"], mesh=loop["mesh"],
            sources=[(at, np.linspace(-1, 1, loop["steps"])) for at in (corner, middle)],
            receivers=[middle, corner], **options,
        )  # fmt: skip
        told = fl.stats().stencil
    assert made.steps == loop["steps"]
    supersteps = -(-loop["steps"] // told.depth)
    each = [loop["steps"] // supersteps + (s < loop["steps"] % supersteps) for s in range(supersteps)]
    periodic = [rule == "periodic" for rule in loop["boundary"]]
    told_of = [(shape, loop["mesh"], loop["radius"], t, periodic) for t in each]
    assert told.sleeve_elements == loop["order"] * sum(sleeves(*one) for one in told_of)
    wraps = any(rule and p == 1 for rule, p in zip(periodic, (*loop["mesh"], 1), strict=False))
    if loop["method"] in ("al3", "al4") and not wraps:
        assert told.updates == sum(updates(*one) for one in told_of)


def test_faces_snapshots_reductions_and_stages():
    """What is not a step of one field: faces and functions as edges, outputs, several fields, integers."""
    shape = (13, 12, 9)
    face = field(shape[1:], seed=9)
    options = {
        "boundary": [({"fixed": face}, {"fixed": lambda step: 0.5 * step}), "periodic", "mirror"],
        "snapshots": {"cut": (2, np.s_[::3, 7, 1:]), "end": ([1, 6], np.s_[5:, ::2])},
        "reductions": ["sum", "max", "change"], "check": True, "until": {"change": -1.0},
    }  # fmt: skip
    x = field(shape)
    plain = fl.stencil(heat(3), x, 6, depth=3, method="al1", **options)
    for method in ("al1", "al3", "al4"):
        made = fl.stencil(heat(3), x, 6, depth=3, method=method, mesh=(2, 2), **options)
        np.testing.assert_array_equal(made.state, plain.state)
        for name in plain.snapshots:
            np.testing.assert_array_equal(np.asarray(made.snapshots[name]), np.asarray(plain.snapshots[name]))
        for name in plain.reductions:
            np.testing.assert_array_equal(made.reductions[name], plain.reductions[name])
    stages = [
        lambda p, q: {"q": q[0, 0] - 0.3 * (p[0, 1] - p[0, 0])},
        lambda p, q: {"p": p[0, 0] - 0.2 * (q[0, 0] - q[-1, 0])},
    ]
    pair = {"p": field((16, 18)), "q": field((16, 18), seed=2)}
    options = {"boundary": ["periodic", "neumann"], "depth": 2}
    plain = fl.stencil(stages, pair, 5, **options)
    for method in ("al1", "al2", "al3", "al4"):
        made = fl.stencil(stages, pair, 5, mesh=(2, 3), method=method, **options)
        for name in pair:
            np.testing.assert_array_equal(made.state[name], plain.state[name])
    world = field((20, 21), "uint8")
    check({(0, 0): 3, (0, 1): -1, (1, 0): 2, (-1, -1): -1}, world, 5, "mirror", mesh=(3, 2), depth=2)


def test_it_ends_early_and_names_the_first_bad_point():
    x = np.full((12, 14), 1.0, "f4")
    x[7, 9] = np.inf
    with fails(fl.NumericalError, "step 1 ", r"\(6, 9\)"):
        fl.stencil(heat(2), x, 4, check=True, depth=2, mesh=(2, 2))
    still = np.zeros_like(x)
    done = fl.stencil(heat(2), still, 40, until={"change": 0.0}, depth=2, mesh=(2, 2))
    assert done.steps == 2
    np.testing.assert_array_equal(done.state, still)


@pytest.mark.parametrize("method", ["al4", "al1", "al3"])
def test_the_plan_is_what_is_done_inside_the_limit(method, tmp_path):
    shape, steps = (48, 96, 300), 6
    x, k = field(shape), 0.05 * np.abs(field(shape, seed=4))
    a = fl.from_numpy(x, tmp_path / "x.zarr", chunks=(16, 64, 64))
    given = {
        "coefficients": fl.from_numpy(k, tmp_path / "k.zarr"),
        "boundary": ["periodic", "mirror", "fixed"],
    }
    options = {"mesh": (2, 2), "depth": 3, "method": method} | given
    wanted = fl.stencil(heat(3), x, steps, method="al1", **given).state
    for more in (0, 200 << 20):
        least = fl.stencil.plan(heat(3), a, steps, **options).least_memory
        limit = least + more + (4 << 20)
        plan = fl.stencil.plan(heat(3), a, steps, memory=limit, **options)
        made = fl.stencil(heat(3), a, steps, memory=limit, out=tmp_path / f"o{more}.zarr", **options)
        done = fl.stats()
        assert done.peak_memory <= limit
        # At the least limit some hundred KiB decide what is evicted, some per cent of the bytes.
        near = 0.01 if more else 0.1
        assert plan.bytes_read == pytest.approx(done.bytes_read, rel=near)
        assert plan.bytes_written == pytest.approx(done.bytes_written, rel=near)
        np.testing.assert_array_equal(np.asarray(made.state), wanted)
        two = 2 * sleeves(shape, (2, 2), 1, 3, (True, False))
        assert plan.choice.sleeve_elements == done.stencil.sleeve_elements == two
        assert min(plan.choice.components.values()) >= 0
        assert min(done.stencil.components.values()) >= 0
        assert plan.choice.components["exchange"] > 0
        assert done.stencil.components["exchange"] > 0
        assert plan.choice.scratch_bytes == done.stencil.scratch_bytes > 3 * x.nbytes
    assert "mesh 2 x 2" in plan.note


@pytest.mark.parametrize("block", [None, (4, 12, 3)])
def test_skewed_tiles_of_a_rank_wrap_around(block):
    """Tiles along a periodic axis that the mesh does not cut: they read sub-buffers by whole boxes."""
    check(box(3, 1), field((8, 12, 3)), 6, "periodic", mesh=(1, 2), depth=3, method="al3", block=block)


def test_what_is_refused():
    x = field((20, 24))
    star = {at: w / 20 for at, w in fl.laplacian(2, 4).items()}
    with fails(fl.ShapeError, "sleeves of 12 points", "core of 10", "give depth 5", "mesh 1 x 2"):
        fl.stencil(star, x, 12, depth=6, mesh=(2, 2))
    with fails(fl.ShapeError, "core of 1 ", "mesh 10 x 1 "):
        fl.stencil(star, x, 4, mesh=(12, 1))
    with fails(fl.ShapeError, "21 ranks", "1 to 20"):
        fl.stencil(star, x, 4, mesh=(21, 1))
    with fails(fl.ShapeError, "one", "leave the mesh out"):
        fl.stencil({(-1,): 0.5, (1,): 0.5}, x[0], 4, mesh=(2, 1))
    for mesh in (2, (2,), (0, 1), "2x2", (2.5, 1)):
        with fails(fl.ShapeError, "mesh is", "2 whole numbers of ranks"):
            fl.stencil(star, x, 4, mesh=mesh)
    # Chosen depths are no deeper than sleeves have room.
    assert fl.stencil.plan(star, x, 50, mesh=(2, 3)).choice.depth <= 4


def test_one_rank_and_no_steps_are_the_field_itself():
    x = field((6, 8))
    check(heat(2), x, 3, mesh=(1, 1))
    assert fl.stats().stencil.sleeve_elements == 0
    np.testing.assert_array_equal(fl.stencil(heat(2), x, 0, mesh=(2, 2)).state, x)
    wave = fl.wave(x + 2, 4, spacing=1.0, sources=[(3, 4)], frequency=0.1, receivers=[(2, 2)])
    cut = fl.wave(x + 2, 4, spacing=1.0, sources=[(3, 4)], frequency=0.1, receivers=[(2, 2)], mesh=(1, 2))
    np.testing.assert_array_equal(cut.traces, wave.traces)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = field((20, 30))
    fl.from_numpy(x, "x.zarr")

    def run(*args):
        return CliRunner().invoke(cli, ["stencil", "heat", "x.zarr", "--steps", "5", *args])

    told = json.loads(run("--mesh", "2x2", "-o", "h.zarr", "--json").output)
    assert told["stats"]["stencil"]["sleeve_elements"] > 0
    assert run("-o", "plain.zarr").exit_code == 0
    np.testing.assert_array_equal(np.asarray(fl.open("h.zarr")), np.asarray(fl.open("plain.zarr")))
    assert "two numbers of ranks" in run("--mesh", "2", "-o", "o.zarr").output


CALL = """
import flagstone as fl, numpy as np
heat = {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(3).items()}
a, b = fl.open("a.zarr"), fl.open("b.zarr")
done = fl.stencil(
    heat, (b, a) if order == 2 else a, 12, method=method, depth=3, mesh=mesh, memory="256MiB",
    boundary=["mirror", "periodic", ("fixed", "neumann")], receivers=[(3, 4, 6)],
    snapshots={"cut": (5, np.s_[:, 7, ::2])}, reductions=["sum"], out="run.zarr",
)
result = told() | {"digest": digest("run.zarr"), "traces": done.traces.tolist(),
                   "sum": done.reductions["sum"].tolist()}
"""


@pytest.mark.parametrize("order", [1, 2])
def test_killed_on_one_mesh_and_gone_on_on_another(process, order, tmp_path):
    """An epoch is the whole field: any mesh, or none, goes on with it."""
    for seed, name in enumerate("ab"):
        fl.from_numpy(field((24, 20, 32), seed=seed), tmp_path / f"{name}.zarr")
    options = {"order": order, "method": "al1", "mesh": None}
    whole = process(CALL, **options)
    (tmp_path / "run.zarr").rename(tmp_path / "whole.zarr")
    process(CALL, 1, **options | {"mesh": (2, 2), "method": "al3"})
    process(CALL, 1, **options | {"mesh": (3, 2), "method": "al4"})
    again = process(CALL, **options)
    assert again["what"].endswith("resumed at 50%")
    for name in ("digest", "traces", "sum"):
        assert again[name] == whole[name], name
