"""Tasks from Python: views, dependencies, exceptions with notes, halos, workers without the lock, Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples


@pytest.fixture
def pair(tmp_path):
    x = np.random.default_rng(0).standard_normal((700, 500))
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    Z = fl.create(tmp_path / "z.zarr", x.shape, x.dtype, chunks=(256, 128))
    Z[...] = X
    Z.flush()
    return x, Z


@pytest.mark.parametrize("inner", ["fold", "compute", "plan"])
def test_a_routine_inside_a_task_is_refused(isolated, inner):
    """It would wait for the run that waits for its task."""
    code = """
    import operator
    x = np.ones((600, 500))
    fl.from_numpy(x, "x.zarr")
    X = fl.open("x.zarr")
    jobs = {
        "fold": lambda: fl.fold(lambda y: y.sum(), operator.add, np.ones(10)),
        "compute": lambda: fl.compute(X + 1)[0, 0],
        "plan": lambda: fl.compute.plan(X + 1).flops,
    }
    def body(block):
        return float(jobs[inner]())
    try:
        fl.fold(body, operator.add, X, block=(200, 500))
    except fl.Error as error:
        told = str(error)
    def own(block):
        with fl.Runtime():
            return body(block) + X[3, 4]
    result = told, fl.fold(own, operator.add, X, block=(600, 500)), float(jobs[inner]())
    """
    told, own, after = isolated(code, inner=inner, timeout=60)
    assert "inside a task's function" in told
    assert own == after + 1


def test_tiles_are_counts_and_regions(pair):
    _, X = pair
    assert tuple(X.tiles) == (3, 4)
    region = X.tiles[2, -1]
    assert region.start == (512, 384)
    assert region.shape == (188, 116)
    with pytest.raises(IndexError, match="out of bounds"):
        X.tiles[3, 0]


def test_reads_writes_and_updates_keep_program_order(pair, tmp_path):
    x, X = pair
    Y = fl.create(tmp_path / "y.zarr", x.shape, x.dtype, chunks=X.chunks)

    def double(a, b):
        assert not a.flags.writeable
        b[...] = 2 * a

    def increment(b):
        b += 1

    with fl.graph(memory="2GiB") as g:
        for i in range(3):
            for j in range(4):
                g.add(double, fl.read(X.tiles[i, j]), fl.write(Y.tiles[i, j]))
                for _ in range(3):
                    g.add(increment, fl.update(Y.tiles[i, j]))
        assert g.plan().bytes_written > 0
    np.testing.assert_array_equal(fl.open(tmp_path / "y.zarr")[...], 2 * x + 1 + 1 + 1)
    assert g.stats.tasks == 48
    assert g.stats.peak_memory <= 2 << 30


def test_reduce_adds_in_a_fixed_order(pair):
    x, X = pair
    total = np.zeros((1, 500))
    results = set()
    for workers in (1, 2, 4):
        total = np.zeros((1, 128))
        T = fl.from_numpy(total)
        with fl.Runtime(workers=workers), fl.graph() as g:
            for i in range(3):
                g.add(lambda a, t: np.add(t, a.sum(0), out=t), fl.read(X.tiles[i, 0]), fl.reduce(T))
        np.testing.assert_allclose(total[0], x[:, :128].sum(0), rtol=1e-12)
        results.add(total.tobytes())
    assert len(results) == 1


def test_a_transposed_array_gives_transposed_views(pair):
    x, X = pair
    seen = {}
    with fl.graph() as g:
        g.add(lambda a: seen.update(a=a.copy()), fl.read(X.T.tiles[1, 2]))
    np.testing.assert_array_equal(seen["a"], x.T[128:256, 512:700])


class Special(Exception):
    pass


def test_the_users_exception_arrives_as_itself_with_a_note(pair):
    x, X = pair

    def fails(a):
        raise Special("mine")

    with pytest.raises(Special, match="mine") as caught, fl.graph() as g:
        g.add(fails, fl.read(X.tiles[1, 2]))
    notes = getattr(caught.value, "__notes__", None) or [str(caught.value.__cause__)]
    assert "in task 'fails'" in notes[0]
    assert "256 x 128 at 256 x 256" in notes[0]
    # The traceback holds the function's arguments: their memory must still be there.
    frame = caught.value.__traceback__
    while frame.tb_next:
        frame = frame.tb_next
    np.testing.assert_array_equal(frame.tb_frame.f_locals["a"], x[256:512, 256:384])


def test_a_view_that_is_kept_is_an_error_and_stays_readable(pair):
    x, X = pair
    kept = []
    with pytest.raises(fl.Error, match=r"kept a view of its tile .* copy"), fl.graph() as g:
        g.add(lambda a: kept.append(a), fl.read(X.tiles[0, 0]))
    gc.collect()
    np.testing.assert_array_equal(kept[0], x[:256, :128])
    del kept[:]
    fl.compute(X + 1)


def test_writing_to_an_input_is_refused(pair):
    _, X = pair

    def careless(a):
        a += 1

    with pytest.raises(ValueError, match="read-only"), fl.graph() as g:
        g.add(careless, fl.read(X.tiles[0, 0]))


@pytest.mark.parametrize(("call", "message"), [
    (lambda X, g: fl.write(fl.Region(X, (slice(0, 100), slice(0, 128)))), "whole chunks"),
    (lambda X, g: fl.write(X.tiles[0, 0].grow(1)), "halos are for reads"),
    (lambda X, g: fl.Region(X, (slice(0, 10, 2),)), "steps"),
    (lambda X, g: fl.Region(X, ..., edge="mirror"), "periodic"),
    (lambda X, g: g.add(print, X), "say what the task does"),
    (lambda X, g: g.add(3, fl.read(X)), "a function is needed"),
])  # fmt: skip
def test_bad_input(pair, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(pair[1], fl.graph())


def test_workers_wait_for_one_another_only_through_the_lock(pair):
    """Two functions that wait for each other without the lock: they can only end together."""
    _, X = pair
    meet = threading.Barrier(2, timeout=30)
    with fl.Runtime(workers=2), fl.graph() as g:
        g.add(lambda a: meet.wait() and None, fl.read(X.tiles[0, 0]))
        g.add(lambda a: meet.wait() and None, fl.read(X.tiles[1, 0]))


def test_numba_without_the_lock_runs_at_once(pair):
    numba = pytest.importorskip("numba")

    @numba.njit(nogil=True)
    def scale(a, b):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                b[i, j] = 3 * a[i, j]

    x, X = pair
    Y = fl.from_numpy(np.zeros_like(x))
    with fl.graph() as g:
        for i in range(3):
            for j in range(4):
                region = X.tiles[i, j]
                key = tuple(slice(s, s + n) for s, n in zip(region.start, region.shape, strict=True))
                g.add(scale, fl.read(region), fl.write(fl.Region(Y, key)))
    np.testing.assert_array_equal(Y[...], 3 * x)


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_ctrl_c_ends_a_graph_of_python_tasks(pair):
    _, X = pair
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), fl.graph() as g:
        for _ in range(400):
            g.add(lambda a: time.sleep(0.05), fl.read(X.tiles[0, 0]))
    assert time.monotonic() - began < 5
    np.testing.assert_array_equal(fl.compute(X + 0)[:2, :2], X[:2, :2])


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_ctrl_c_reaches_a_python_function_that_would_never_end(pair):
    _, X = pair
    ended = []

    def endless(a):
        try:
            while True:
                pass
        finally:
            ended.append(True)

    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), fl.graph() as g:
        g.add(endless, fl.read(X.tiles[0, 0]))
        g.add(endless, fl.read(X.tiles[0, 1]))
    assert time.monotonic() - began < 10
    assert ended
    np.testing.assert_array_equal(fl.compute(X + 0)[:2, :2], X[:2, :2])  # nothing of it is left in a thread


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_a_second_ctrl_c_reaches_a_function_that_swallowed_the_first(pair):
    _, X = pair
    swallowed = []

    def stubborn(a):
        for _ in range(2):
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                swallowed.append(True)

    for seconds in (0.5, 1.5):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), fl.graph() as g:
        g.add(stubborn, fl.read(X.tiles[0, 0]))
    assert len(swallowed) == 2


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
def test_ctrl_c_ends_a_plan_of_many_tasks(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (300_000, 300_000), "float32")  # no chunk of it exists
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fl.matmul.plan(A, A.T, memory="4GiB")  # half a minute
    assert time.monotonic() - began < 10


@examples(40)
@given(data=st.data())
def test_map_blocks_with_halos(data):
    shape = (data.draw(st.integers(1, 40)), data.draw(st.integers(1, 30)))
    block = (data.draw(st.integers(1, 40)), data.draw(st.integers(1, 30)))
    halo = (data.draw(st.integers(0, min(3, shape[0]))), data.draw(st.integers(0, min(3, shape[1]))))
    edge = data.draw(st.sampled_from(["clip", "periodic"]))
    x = np.random.default_rng(1).integers(0, 99, shape).astype(float)

    def windows(a):
        """Sum over the window of the halo, for elements whose window lies inside what is seen."""
        padded = np.pad(a, [(h, h) for h in halo])
        return sum(
            padded[i : i + a.shape[0], j : j + a.shape[1]]
            for i in range(2 * halo[0] + 1)
            for j in range(2 * halo[1] + 1)
        )

    mode = "wrap" if edge == "periodic" else "constant"
    grown = np.pad(x, [(h, h) for h in halo], mode=mode)
    wanted = windows(grown)[halo[0] : halo[0] + shape[0], halo[1] : halo[1] + shape[1]]
    got = fl.map_blocks(windows, fl.from_numpy(x), block=block, halo=halo, edge=edge, out=np.zeros(shape))
    np.testing.assert_array_equal(got, wanted)


def test_map_tiles(pair, tmp_path):
    x, X = pair
    Y = fl.map_tiles(lambda a, b: a * b > 0, X, X, dtype=bool, out=tmp_path / "y.zarr")
    assert Y.dtype == bool
    assert Y.chunks == X.chunks
    np.testing.assert_array_equal(Y[...], x * x > 0)
    np.testing.assert_array_equal(fl.map_tiles(np.negative, X)[...], -x)
    assert fl.map_tiles.plan(np.negative, X, memory="4GiB").bytes_read >= x.nbytes
    with pytest.raises(fl.ShapeError, match="returned 3 for a block"):
        fl.map_tiles(lambda a: np.zeros(3), X)
    with pytest.raises(TypeError, match="same_kind"):
        fl.map_tiles(lambda a: a * 1j, X)


def test_the_limit_holds_while_python_tasks_run(tmp_path):
    X = fl.from_numpy(np.ones((4000, 3000)), tmp_path / "x.zarr")
    with pytest.raises(fl.BudgetError) as refused:
        fl.map_tiles(np.sqrt, X, memory="30MiB")
    Y = fl.map_tiles(np.sqrt, X, memory=refused.value.least)
    assert fl.stats().peak_memory <= refused.value.least
    assert float(Y.sum()) == X.size


@pytest.mark.parametrize("scratch", [-5, 1 << 70])
def test_scratch_that_is_no_size_is_refused_before_the_task_is_added(scratch):
    Z = fl.from_numpy(np.zeros((4, 4)))
    g = fl.graph()
    with pytest.raises(ValueError, match="graph: scratch: .* is no size"):
        g.add(lambda z: None, fl.write(Z), scratch=scratch)
    assert len(g) == 0


@pytest.mark.parametrize("halo", [1.5, True, (1,), (1, -1), (1, 0.5), "1"])
def test_halos_are_integers_one_for_each_dimension(halo):
    X = fl.from_numpy(np.ones((6, 6)))
    with pytest.raises(fl.ShapeError, match="halo is .* give one number"):
        fl.map_blocks(lambda x: x, X, block=(3, 3), halo=halo)
    same = fl.map_blocks(lambda x: x, X, block=(3, 3), halo=[1, 1])
    np.testing.assert_array_equal(same[...], 1)


def test_notes_name_the_operand_not_a_hidden_place(tmp_path):
    X = fl.from_numpy(np.ones((6, 6)), tmp_path / "x.zarr")
    with pytest.raises(ZeroDivisionError) as caught:
        fl.map_tiles(lambda x: 1 // 0, X)
    note = " ".join(getattr(caught.value, "__notes__", []))
    if note:  # Python 3.11 and later
        assert "x.zarr" in note
        assert "flagstone-tmp" not in note
