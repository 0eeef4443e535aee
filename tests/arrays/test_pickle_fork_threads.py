"""Handles across processes and threads: pickling by path, fork, pools, several runtimes, several threads."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.processes import ROOT

# Pickling ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=["zarr", "npy", "sparse"])
def packed(request, tmp_path, rng):
    """(path, its pickle, what it holds, how to replace it)."""
    if request.param == "sparse":
        x = sp.random(50, 20, 0.2, format="csr", random_state=2)
        path = tmp_path / "a.zarr"
        handle = fl.from_blocks([x], path)
        return path, pickle.dumps(handle), x.toarray(), lambda: fl.from_blocks([x], path, overwrite=True)
    x = rng.random((50, 20))
    path = tmp_path / ("a.npy" if request.param == "npy" else "a.zarr")
    handle = fl.from_numpy(x, path)
    larger = np.ones((51, 20))
    return path, pickle.dumps(handle), x, lambda: fl.from_numpy(larger, path, overwrite=True)


def held(handle):
    return handle.to_scipy().toarray() if isinstance(handle, fl.SparseArray) else handle[...]


def test_a_pickle_is_small_and_finds_its_array(packed):
    _, text, x, _ = packed
    assert len(text) < 1000
    np.testing.assert_array_equal(held(pickle.loads(text)), x)


def test_views_travel(tmp_path, rng):
    x = rng.random((8, 5)) + 1j
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a.T.conj()))[...], x.T.conj())
    m = sp.random(9, 4, 0.5, format="csr", random_state=3)
    again = pickle.loads(pickle.dumps(fl.from_blocks([m], tmp_path / "m.zarr").T))
    assert again.shape == (4, 9)


def test_a_pickle_of_what_went_away(packed):
    path, text, _, _ = packed
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(FileNotFoundError, match=r"unpickle: '.*' went away since the array was pickled"):
        pickle.loads(text)


def test_a_pickle_of_what_was_replaced(packed):
    _, text, _, replace = packed
    replace()
    with pytest.raises(fl.FormatError, match=r"unpickle: '.*' was replaced since the array was pickled"):
        pickle.loads(text)


def test_assignment_in_place_is_no_replacement(tmp_path):
    for name in ("a.zarr", "a.npy"):
        a = fl.from_numpy(np.zeros((9, 4)), tmp_path / name)
        text = pickle.dumps(a)
        a[2] = 5
        a.flush()
        np.testing.assert_array_equal(pickle.loads(text)[2], 5)


def test_arrays_in_memory_travel_with_their_elements(rng):
    x = rng.random((6, 5))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fl.from_numpy(x).T))[...], x.T)


# Processes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io", ["auto", "threads"])
def test_a_forked_child_makes_its_own_runtime(isolated, io):
    """Inherited, used and dead: inside a with block, and the default; the child ends as processes do."""
    result = isolated(
        """
        import os
        x = np.arange(90000.).reshape(300, 300)
        a = fl.from_numpy(x, "a.zarr")
        def run_child(work):
            child = os.fork()
            if child == 0:
                try:
                    work()
                except BaseException as error:
                    print(error, file=sys.stderr, flush=True)
                    os._exit(1)
                sys.exit(0)  # with everything torn down, the parent's dead engine too
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        def work():
            assert (fl.matmul(a, a)[0, :5] == first).all()
            assert a[17, 5] == x[17, 5]
        codes = []
        try:
            first = fl.matmul(a, a)[0, :5]
            codes.append(run_child(work))
            with fl.Runtime(memory="1GiB", workers=2, io=io):
                assert (fl.matmul(a, a)[0, :5] == first).all()
                codes.append(run_child(work))
                codes.append(run_child(lambda: None))  # a child that never touches it
                assert (fl.matmul(a, a)[0, :5] == first).all()  # the parent's lives on
        except SystemExit as stop:
            os._exit(stop.code)  # a child: exits run below in the parent only
        result = codes
        """,
        io=io,
    )
    assert result == [0, 0, 0]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_pool_of_processes(isolated, start):
    result = isolated(
        """
        import multiprocessing as mp
        from tests.support.processes import row_sum
        if __name__ == "__main__":
            a = fl.from_numpy(np.arange(6000.).reshape(60, 100), "a.zarr")
            a @ a.T  # the parent has a runtime of its own
            with mp.get_context(start).Pool(2) as pool:
                sums = pool.starmap(row_sum, [(a, i) for i in range(60)])
            result = bool(np.allclose(sums, a[...].sum(axis=1)))
        """,
        start=start,
    )
    assert result is True


def test_joblib(isolated):
    pytest.importorskip("joblib")
    result = isolated(
        """
        from joblib import Parallel, delayed
        from tests.support.processes import row_sum
        a = fl.from_numpy(np.arange(6000.).reshape(60, 100), "a.zarr")
        a @ a.T
        sums = Parallel(n_jobs=2)(delayed(row_sum)(a, i) for i in range(60))
        result = bool(np.allclose(sums, a[...].sum(axis=1)))
        """,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert result is True


# Runtimes and threads ---------------------------------------------------------------------------------------


def test_two_runtimes_in_one_process(tmp_path, rng):
    x = rng.random((500, 400))
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    small = fl.Runtime(memory="2GiB", workers=1, scratch=tmp_path / "one")
    large = fl.Runtime(memory="3GiB", workers=2, scratch=tmp_path / "two", io="threads")
    with small:
        one = fl.matmul(a, a.T)
        with large:
            two = fl.matmul(a, a.T)
            assert fl.features()["memory_limit"] == 3 << 30
        again = fl.matmul(a, a.T)
    assert small.last.memory == 2 << 30
    assert large.last.memory == 3 << 30
    assert "threads" in large.last.io
    assert str(tmp_path / "two") in two.path
    for product in (one, two, again):
        assert product[...].tobytes() == one[...].tobytes()


def test_two_runtimes_at_once(tmp_path, rng):
    x = rng.random((700, 500))
    a = fl.from_numpy(x, tmp_path / "a.zarr")

    def work(number):
        with fl.Runtime(memory="2GiB", workers=1 + number % 2, scratch=tmp_path / str(number)):
            return [fl.matmul(a, a.T)[...].tobytes() for _ in range(3)]

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(work, range(3)))
    assert len({bits for several in results for bits in several}) == 1


def test_threads_share_handles_and_one_runtime(tmp_path, rng):
    """Reads, assignments to different boxes, dense and sparse products, all at once."""
    x = rng.random((400, 300))
    a = fl.from_numpy(x, tmp_path / "a.zarr")
    b = fl.create(tmp_path / "b.zarr", (400, 300), "float64", chunks=(50, 100))
    m = sp.random(400, 300, 0.1, format="csr", random_state=3)
    s = fl.from_blocks([m], tmp_path / "m.zarr")

    def work(i):
        rows = slice(50 * (i % 8), 50 * (i % 8) + 50)
        b[rows] = a[rows]
        np.testing.assert_allclose(fl.matmul(a, a.T)[...], x @ x.T, rtol=1e-12)
        np.testing.assert_allclose(s @ x[:300, :7], m @ x[:300, :7], rtol=1e-10)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(16)))
    b.flush()
    np.testing.assert_array_equal(b[...], x)


def test_a_lock_swept_before_it_was_taken_is_made_again(tmp_path):
    """Others sweep all the time; the unit tests of storage/scratch sweep in the very moment."""
    from flagstone._scratch import scratch

    code = f"""
import os
from pathlib import Path
from flagstone._scratch import scratch
print("ready", flush=True)
while True:
    scratch.Result(Path({str(tmp_path)!r}), "other").discard()
"""
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "ready\n"
        for _ in range(200):
            place = scratch.Result(tmp_path, "one")
            assert Path(place.path).with_suffix(".lock").exists()
            place.discard()
    finally:
        other.kill()
        other.communicate()
    scratch.Result(tmp_path, "last").discard()
    assert not (tmp_path / "results").exists()


def test_a_journal_committed_before_the_lock_was_had_is_not_overwritten(tmp_path, monkeypatch):
    from flagstone._formats.hdf5 import page_journal as journal

    path = tmp_path / "file.bin"
    path.write_bytes(b"old" * 5000)
    first = journal.Journal(str(path))
    first.write(b"new" * 5000)
    apply = journal._apply
    died = []

    def dies(*arguments):
        raise KeyboardInterrupt

    real = journal.FileLock

    class Lock:
        wait = real.wait

        @staticmethod
        def take(part):
            if died:
                return real.take(part)
            died.append(True)
            journal._apply = dies
            with pytest.raises(KeyboardInterrupt), first:
                first.commit()  # renamed, and its process ends before the pages are in the file
            journal._apply = apply
            # Opened before it was renamed and locked after: it has the other name by now.
            return real.take(part.removesuffix(".part"))

    monkeypatch.setattr(journal, "FileLock", Lock)
    with journal.Journal(str(path)) as second:
        second.write(b"end")
        second.commit()
    assert died
    assert path.read_bytes() == b"end" + b"new" * 4999
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]
