"""Time loops under limits: equal bits, on disk, inside the limit; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from tests.stencil.oracle import as_edges, swept
from tests.support.error_sentences import fails

STAR = {at: 0.1 * w for at, w in fl.laplacian(3, 4).items()}


@pytest.mark.parametrize("method", ["al4", "al3", "al2", "al1", "sweep", "auto"])
@pytest.mark.parametrize("order", [1, 2])
def test_limits_and_workers_change_no_bit(method, order, tmp_path):
    shape, steps = (48, 130, 300), 6
    rng = np.random.default_rng(3)
    now, before, k = (rng.standard_normal(shape).astype("f4") for _ in range(3))
    state = now if order == 1 else (before, now)
    wanted, _ = swept(STAR, state, steps, as_edges("mirror", 3), [k])
    fl.from_numpy(now, tmp_path / "now.zarr", chunks=(16, 64, 64))
    np.save(tmp_path / "before.npy", before)
    a, b = fl.open(tmp_path / "now.zarr"), fl.open(tmp_path / "before.npy")
    given = a if order == 1 else (b, a)
    options = {"boundary": "mirror", "coefficients": fl.from_numpy(k, tmp_path / "k.zarr"), "method": method}
    least = fl.stencil.plan(STAR, given, steps, **options).least_memory
    for i, (more, workers) in enumerate(((0, 1), (8 << 20, 2), (400 << 20, 4))):
        with fl.Runtime(workers=workers):
            least = max(least, fl.stencil.plan(STAR, given, steps, **options).least_memory)
            limit = least + more + (4 << 20)
            made = fl.stencil(STAR, given, steps, memory=limit, out=tmp_path / f"o{i}.zarr", **options)
            assert fl.stats().peak_memory <= limit
        pairs = [(made.state, wanted)] if order == 1 else zip(made.state, wanted, strict=True)
        for one, other in pairs:
            np.testing.assert_array_equal(np.asarray(one), other)


@pytest.mark.parametrize("method", ["al4", "al3", "al2", "al1", "sweep"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_plan_is_what_is_done(method, order, tmp_path):
    """Part of what lies between supersteps has room in memory; the rest travels, as often as planned."""
    x = np.random.default_rng(0).standard_normal((48, 256, 256)).astype("f4")
    a = fl.from_numpy(x, tmp_path / "x.zarr")
    state = (a, a) if order == 2 else a
    options = {"method": method, "boundary": "mirror", "depth": None if method == "sweep" else 3}
    if method == "al3":  # the first superstep reads the seams of an operand twice, or finds them in the cache
        options["block"] = (16, 256, 256)
    # What a process grows by at its first call is no part of a plan.
    fl.stencil(STAR, x[:9], 2, method=method)
    limit = _core.resident_bytes() + ((90 if method in ("al2", "al3") else 60) << 20)  # more buffers
    plan = fl.stencil.plan(STAR, state, 6, memory=limit, **options)
    fl.stencil(STAR, state, 6, memory=limit, out=tmp_path / "o.zarr", **options)
    done = fl.stats()
    assert plan.method == done.method == method
    assert order == 1 or plan.bytes_read > 1.2 * order * x.nbytes
    assert abs(plan.bytes_read - done.bytes_read) <= 0.01 * plan.bytes_read
    assert abs(plan.bytes_written - done.bytes_written) <= 0.01 * plan.bytes_written
    assert plan.flops == done.flops
    assert done.peak_memory <= limit
    chosen, did = plan.choice, done.stencil
    assert (chosen.method, chosen.supersteps, chosen.depth) == (method, plan.passes, did.depth)
    assert chosen.useful_updates == did.useful_updates == x.size * 6
    assert did.updates_per_second == did.useful_updates / done.seconds
    assert (did.block, len(did.cache_block)) == ((), 3) if method == "al4" else len(did.block) == 3
    if method in ("al3", "al4"):  # nothing twice
        assert did.updates == did.useful_updates
    elif method != "al2":  # by the formula of trapezoids: each step on a range that is smaller by the radius
        grown = [_grown(x.shape, did.block, 2 * (did.depth - t)) for t in range(did.depth + 1)]
        assert did.updates == sum(grown[1:]) * did.supersteps
    assert done.as_dict()["stencil"]["updates"] == did.updates
    assert did.components["compute"] == done.worker_busy_seconds


def _grown(shape, block, by):
    each = 1
    for n, b in zip(shape, block, strict=True):
        cuts = [(first, min(n, first + b)) for first in range(0, n, b)]
        each *= n if b >= n else sum(min(n, last + by) - max(0, first - by) for first, last in cuts)
    return each


@pytest.mark.parametrize("method", ["al4", "al3", "al1"])
def test_in_turn_nothing_else_changes(method, tmp_path):
    x = np.random.default_rng(0).standard_normal((30, 64, 96)).astype("f4")
    a = fl.from_numpy(x, tmp_path / "x.zarr")
    options = {"method": method, "depth": 3}
    wanted = np.asarray(fl.stencil(STAR, a, 6, **options).state)
    plan = fl.stencil.plan(STAR, a, 6, overlap=False, **options)
    made = fl.stencil(STAR, a, 6, overlap=False, out=tmp_path / "o.zarr", **options)
    np.testing.assert_array_equal(np.asarray(made.state), wanted)
    assert fl.stats().bytes_written == plan.bytes_written
    with fails(TypeError, "stencil", "overlap is 2"):
        fl.stencil(STAR, a, 6, overlap=2)


def test_al1_needs_what_its_plan_says_at_run(tmp_path):
    """Cells of one row each once took gigabytes to list, in the least limit of a large field."""
    a = fl.from_numpy(np.ones((40, 512, 256), "f4"), tmp_path / "x.zarr", chunks=(1, 256, 256))
    limit = _core.resident_bytes() + (48 << 20)
    plan = fl.stencil.plan(fl.laplacian(3), a, 4, memory=limit, method="al1")
    assert plan.least_memory <= limit
    fl.stencil(fl.laplacian(3), a, 4, memory=limit, method="al1", out=tmp_path / "o.zarr")
    assert fl.stats().peak_memory <= limit
    huge = fl.planned((512, 512, 1024), "f4")  # 64 steps of it are planned in seconds, within some MiB
    before = _core.resident_bytes()
    limit = before + (448 << 20)
    least = fl.stencil.plan(fl.laplacian(3), huge, 4, memory=limit, method="al1", depth=1).least_memory
    assert least - before < 128 << 20


@pytest.mark.parametrize("method", ["al4", "al1"])
def test_fields_in_fortrans_order_are_copied_by_rows(method, tmp_path):
    """Rows that lie scattered are copied once, inside the limit; planned with the loop."""
    x = np.random.default_rng(0).standard_normal((40, 150, 200)).astype("f4")
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    a = fl.open(tmp_path / "f.npy")
    options = {"method": method, "coefficients": a, "depth": 2}
    wanted, _ = swept(STAR, (x, x), 4, as_edges("fixed", 3), [x])
    fl.stencil(STAR, (a, a), 1, coefficients=a, method=method)
    limit = fl.stencil.plan(STAR, (a, a), 4, **options).least_memory + (4 << 20)
    plan = fl.stencil.plan(STAR, (a, a), 4, memory=limit, **options)
    made = fl.stencil(STAR, (a, a), 4, memory=limit, out=tmp_path / "o.zarr", **options)
    done = fl.stats()
    for one, other in zip(made.state, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
    assert "copied first" in plan.note
    assert done.peak_memory <= limit
    assert limit - _core.resident_bytes() < 80 << 20
    assert plan.bytes_read > 4 * x.nbytes  # the copy, and the loop's three reads at least
    assert abs(plan.bytes_read - done.bytes_read) < 0.1 * plan.bytes_read


def test_one_superstep_of_al4_reads_and_writes_once(tmp_path):
    x = np.random.default_rng(0).standard_normal((64, 256, 256)).astype("f4")
    a = fl.from_numpy(x, tmp_path / "x.zarr")
    fl.stencil(fl.laplacian(3), a, 8, method="al4", depth=8, out=tmp_path / "o.zarr")
    done = fl.stats()
    assert done.bytes_read <= 1.02 * x.nbytes
    assert done.bytes_written <= 1.02 * x.nbytes


def test_results_land_where_they_are_asked_for(tmp_path):
    x = np.random.default_rng(0).standard_normal((20, 30)).astype("f8")
    pair = fl.stencil(fl.laplacian(2), (x, x + 1), 2, out=tmp_path / "run.zarr").state
    assert (tmp_path / "run.zarr" / "now").is_dir()
    assert (tmp_path / "run.zarr" / "before").is_dir()
    given = np.zeros_like(x), np.zeros_like(x)
    into = fl.stencil(fl.laplacian(2), (x, x + 1), 2, out=given).state
    assert into[0] is given[0]
    assert into[1] is given[1]
    for one, other in zip(pair, into, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    twice = fl.stencil(fl.laplacian(2), a, 3, out=tmp_path / "a.zarr").state  # a new version, exchanged
    np.testing.assert_array_equal(np.asarray(twice), fl.stencil(fl.laplacian(2), x, 3).state)


def test_states_have_places_of_their_own(tmp_path):
    """The one that is written last would be both."""
    x = np.random.default_rng(0).standard_normal((20, 30))
    one, old = np.zeros((21, 30)), fl.from_numpy(x, tmp_path / "old.zarr")
    inside = tmp_path / "a", tmp_path / "a" / "b"
    for out in ((one[1:],) * 2, (one[1:], one[:-1]), (tmp_path / "a",) * 2, inside, (old, old)):
        with fails(ValueError, "stencil", "two results would go to"):
            fl.stencil(fl.laplacian(2), (x, x), 2, out=out)
        with fails(ValueError, "stencil", "two results would go to"):
            out = dict(zip("uv", out, strict=True))
            fl.stencil(lambda u, v: {"u": v[0, 1]}, {"u": x, "v": x}, 2, out=out)
    assert not one.any()
    halves = np.zeros((20, 60))
    wanted = fl.stencil(fl.laplacian(2), (x, x + 1), 2).state
    fl.stencil(fl.laplacian(2), (x, x + 1), 2, out=(halves[:, :30], halves[:, 30:]))
    np.testing.assert_array_equal(halves, np.hstack([np.asarray(one) for one in wanted]))


def test_operands_as_they_are_seen(tmp_path):
    x = np.random.default_rng(0).standard_normal((20, 30)).astype("f4")
    wanted = np.asarray(fl.stencil(fl.laplacian(2), x, 3).state)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    turned = fl.from_numpy(np.ascontiguousarray(x.T), tmp_path / "t.zarr").T
    for given in (fl.open(tmp_path / "f.npy"), turned, fl.from_numpy(x - 1) + 1 - 0 * x, x[:, ::-1][:, ::-1]):
        made = fl.stencil(fl.laplacian(2), given, 3).state
        if not isinstance(given, fl.Expression):
            np.testing.assert_array_equal(np.asarray(made), wanted)
        np.testing.assert_array_equal(
            np.asarray(made), fl.stencil(fl.laplacian(2), np.asarray(given), 3).state
        )


def test_what_is_refused():
    x, w = np.zeros((6, 8), "f4"), fl.laplacian(2)
    refused = [
        (ValueError, "steps is -1", lambda: fl.stencil(w, x, -1)),
        (TypeError, "steps is 1.5", lambda: fl.stencil(w, x, 1.5)),
        (ValueError, "no neighbour at all", lambda: fl.stencil({}, x, 1)),
        (ValueError, "no neighbour at all", lambda: fl.stencil(lambda u, c: c * 2, x, 1, coefficients=x)),
        (TypeError, "fl.where", lambda: fl.stencil(lambda u: u[0, 1] if u[0, 0] > 0 else u[0, 0], x, 1)),
        (TypeError, "returned NoneType", lambda: fl.stencil(lambda u: None, x, 1)),
        (TypeError, "one whole number for each of 2 axes", lambda: fl.stencil(lambda u: u[1], x, 1)),
        (fl.ShapeError, "is not one of 2 dimensions", lambda: fl.stencil(fl.laplacian(3), x, 1)),
        (
            fl.ShapeError,
            "now is 5 x 8 float32 and before 6 x 8 float32; all must be equal",
            lambda: fl.stencil(w, (x, x[1:]), 1),
        ),
        (fl.ShapeError, "does not broadcast", lambda: fl.stencil(w, x, 1, coefficients=np.zeros(5))),
        (
            ValueError,
            "on one side only",
            lambda: fl.stencil(w, x, 1, boundary=[("periodic", "fixed"), "fixed"]),
        ),
        (ValueError, "no boundary 'open'", lambda: fl.stencil(w, x, 1, boundary="open")),
        (fl.ShapeError, "an index inside", lambda: fl.stencil(w, x, 1, sources=[((6, 0), [1.0])])),
        (fl.ShapeError, "one a step", lambda: fl.stencil(w, x, 3, sources=[((5, 0), [1.0])])),
        (fl.ShapeError, "an index inside", lambda: fl.stencil(w, x, 1, receivers=[(0, -1)])),
        (ValueError, "1 to 4 is possible", lambda: fl.stencil(w, x, 4, depth=5)),
        (ValueError, "no method 'al9'", lambda: fl.stencil(w, x, 4, method="al9")),
        (TypeError, "real ones are needed", lambda: fl.stencil({(0, 0): 1j}, x, 1)),
        (fl.ShapeError, "whole numbers", lambda: fl.stencil({(0, 0): 0.5}, np.zeros((4, 4), "i4"), 1)),
    ]
    for kind, words, call in refused:
        with fails(kind, "stencil", words):
            call()


def test_a_limit_that_is_too_small_names_the_least(tmp_path):
    a = fl.from_numpy(np.zeros((40, 500, 1000), "f4"), tmp_path / "a.zarr")
    with pytest.raises(fl.BudgetError, match="MiB"):
        fl.stencil(fl.laplacian(3), a, 4, memory=_core.resident_bytes() + (1 << 20), out=tmp_path / "o.zarr")
    assert not (tmp_path / "o.zarr").exists()


@pytest.mark.parametrize(
    ("kernel", "error", "said"),
    [
        ({(0, 0): np.nan}, fl.NumericalError, "NaN or Inf"),
        ({(0, 0): 1.0, (1, 0): np.inf}, fl.NumericalError, "NaN or Inf"),
        ({(0, 2**62): 1.0}, fl.ShapeError, "beyond any axis"),
        ({(-(2**63), 0): 1.0}, fl.ShapeError, "beyond any axis"),
        (lambda u: u[0, 2**70], fl.ShapeError, "beyond any axis"),
        ({(0.5, 0): 1.0}, TypeError, "a number for each offset"),
        ({(0, 0): "a"}, TypeError, "a number for each offset"),
    ],
)
def test_weights_that_are_none(kernel, error, said):
    with pytest.raises(error, match=said):
        fl.stencil(kernel, np.ones((9, 7)), 1)
