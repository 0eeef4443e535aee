"""Updates in place: all of them or none, durable when the call returns, one moment for every reader."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl

SHAPE = (256, 192)


def made(path, names=("A", "B")) -> dict[str, np.ndarray]:
    values = {}
    for i, name in enumerate(names):
        values[name] = np.full(SHAPE, float(i))
        array = fl.create(path / name, SHAPE, "float64", chunks=(64, 64))
        array[...] = values[name]
        array.close()
    return values


@pytest.fixture
def group(tmp_path):
    path = tmp_path / "data.zarr"
    return path, made(path)


def read(path, name) -> np.ndarray:
    return np.asarray(fl.open(path / name))


def test_an_assignment_is_on_the_disk_when_it_returns(group):
    path, values = group
    code = f"""
import os, flagstone as fl
a = fl.open({str(path / "A")!r}, mode="r+")
a[3:200, 5:100:2] = 7
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 9
    values["A"][3:200, 5:100:2] = 7
    assert np.array_equal(read(path, "A"), values["A"])
    assert fl.check(path).ok


def test_a_block_is_all_or_nothing(group):
    path, values = group
    A, B = (fl.open(path / name, mode="r+") for name in "AB")
    with pytest.raises(ZeroDivisionError), fl.transaction(path):
        A[:100] = 5
        B[:, 3] = 6
        assert A[0, 0] == 5
        assert B[0, 3] == 6
        assert read(path, "A")[0, 0] == 0  # nobody else sees it
        1 / 0
    for name, array in (("A", A), ("B", B)):
        assert np.array_equal(array[...], values[name])
        assert np.array_equal(read(path, name), values[name])
    with fl.transaction(path):
        A[:100] = 5
        B[:, 3] = A[:, 0]
        B[10:20] = A[10:20] * 2.0 + fl.open(path / "B")[10:20]
    values["A"][:100] = 5
    values["B"][:, 3] = values["A"][:, 0]
    values["B"][10:20] = values["A"][10:20] * 2 + 1
    for name in "AB":
        assert np.array_equal(read(path, name), values[name])
    report = fl.check(path)
    assert report.ok
    assert report.verified == report.stored


def test_a_graph_that_fails_half_way_and_is_caught_takes_the_block_back(group):
    path, values = group
    A, B = (fl.open(path / name, mode="r+") for name in "AB")
    before = 0

    def written():
        return int(Path("/proc/self/io").read_text().split("\nwrite_bytes: ")[1].split()[0])

    def fail(x):
        for _ in range(500):  # until a tile has gone to the file: nothing else in the graph uses that one
            if written() > before:
                break
            time.sleep(0.01)
        raise KeyError(3)

    def block():
        nonlocal before
        with fl.transaction(path):
            A[:100] = 5
            before = written()
            with pytest.raises(KeyError), fl.graph() as graph:
                graph.add(lambda x: x.fill(9), fl.write(B.tiles[0, 0]))
                graph.add(lambda x: x.fill(8), fl.write(B.tiles[0, 1]))
                graph.add(fail, fl.read(B.tiles[0, 0]))
            A[100:] = 6

    with pytest.raises(fl.Error, match="changed a part of '.*B'.*nothing of the block is stored"):
        block()
    for name, array in (("A", A), ("B", B)):
        assert np.array_equal(array[...], values[name])
        assert np.array_equal(read(path, name), values[name])
    with fl.transaction(path):  # the handles go on
        A[...] = 7
    assert read(path, "A")[3, 3] == 7


def test_a_call_that_is_refused_before_it_writes_leaves_the_block_alone(group):
    path, values = group
    A = fl.open(path / "A", mode="r+")
    with fl.transaction(path):
        A[3] = 5
        with pytest.raises(fl.ShapeError):
            A[:2] = np.ones((3, 3))
        with pytest.raises(fl.BudgetError), fl.Runtime(memory="1MiB"):
            A[...] = A * 2
    values["A"][3] = 5
    assert np.array_equal(read(path, "A"), values["A"])


@pytest.mark.parametrize("how", ["every row", "some rows", "columns", "blocks"])
def test_what_waits_in_a_block_keeps_the_limit(isolated, how):
    """Rows whose chunks become whole together, and chunks that are merged when the block ends."""
    over = isolated(
        """
        from tests.support.processes import peak_memory, reset_peak
        array = fl.create("a.zarr", (2048, 4096), "float64", chunks=(512, 512))
        array[...] = np.ones((2048, 4096))

        def update():
            with fl.transaction("a.zarr"):
                for i in range(0, 2048, {"every row": 1, "some rows": 97, "columns": 8, "blocks": 100}[how]):
                    rows = min(100 if how == "blocks" else 1, 2048 - i)
                    if how == "columns":
                        array[:, i : i + 1] = np.full((2048, 1), i)
                    elif how == "every row":  # of a stripe that may wait
                        array[i : i + 1, :2048] = np.full((1, 2048), i)
                    else:
                        array[i : i + rows] = np.full((rows, 4096), i)

        update()  # once: code and tables are there
        fl._core.release_pages()
        fl._core.trim()
        reset_peak()
        limit = fl._core.resident_bytes() + (40 << 20)
        with fl.Runtime(memory=limit, workers=2):
            update()
        result = peak_memory() - limit
        """,
        how=how,
    )
    assert over <= 0, f"{over / 2**20:.1f} MiB over the limit"


def test_graphs_belong_to_it(group):
    path, values = group
    A = fl.open(path / "A", mode="r+")

    def fill(a):
        a[...] = 9

    def fail(a):
        raise KeyError("no")

    with pytest.raises(KeyError), fl.graph() as g:
        g.add(fill, fl.write(A.tiles[0, 0]))
        g.add(fail, fl.update(A.tiles[0, 0]))
    assert np.array_equal(read(path, "A"), values["A"])
    with fl.transaction(path), fl.graph() as g:
        g.add(fill, fl.write(A.tiles[1, 1]))
    values["A"][64:128, 64:128] = 9
    assert np.array_equal(read(path, "A"), values["A"])


def test_one_writer_and_who_it_is(group):
    path, _ = group
    code = f"""
import flagstone as fl
with fl.transaction({str(path)!r}):
    fl.open({str(path / "A")!r}, mode="r+")[0, 0] = 1
    print("inside", flush=True)
    input()
"""
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout.readline() == "inside\n"
    A = fl.open(path / "A", mode="r+")
    who = rf"being written by process {writer.pid} \(python\S*\) since 2"
    with pytest.raises(fl.StorageError, match=who):
        A[5, 5] = 3
    assert A[0, 0] == 0  # readers are not disturbed
    writer.communicate("\n", timeout=30)
    assert writer.returncode == 0
    A[5, 5] = 3
    assert (A[0, 0], A[5, 5]) == (1, 3)


def test_threads_take_turns(group):
    path, values = group
    A = fl.open(path / "A", mode="r+")

    def rows(first):
        for i in range(first, first + 8):
            A[i] = i

    threads = [threading.Thread(target=rows, args=(8 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values["A"][:32] = np.arange(32)[:, None]
    assert np.array_equal(read(path, "A"), values["A"])


def test_threads_that_assign_while_blocks_begin_and_end(tmp_path):
    """Each assignment is of its own or of the block, never of half of it."""
    path = tmp_path / "a.zarr"
    A = fl.create(path, (1024, 1024), "float64", chunks=(128, 128))
    A[...] = 0
    errors, stop, told = [], threading.Event(), []

    def assign(start):
        for k in range(start, start + 100000, 2):
            if stop.is_set():
                return
            try:
                A[3:900, 1:] = k
                told.append(k)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=assign, args=(1 + i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for i in range(8):
        with fl.transaction(path):
            A[0] = i
            time.sleep(0.005 * i)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    seen = np.asarray(fl.open(path))
    assert np.array_equal(seen, np.asarray(A))
    assert (seen[3:900, 1:] == seen[3, 1]).all()  # of one assignment
    assert seen[3, 1] in told[-2:]
    assert (seen[0] == 7).all()
    assert fl.check(path).ok


def test_the_end_of_a_block_waits_for_what_other_threads_assign(group):
    path, values = group
    A, B = (fl.open(path / name, mode="r+") for name in "AB")
    started, go = threading.Event(), threading.Event()

    def slow(a):
        started.set()
        assert go.wait(30)
        a[...] = 9

    def nested(a, b):
        B[3, 3] = 4  # of a call that the block waits for: it is let in, and waits for nobody
        A[200, 0] = 3
        b[...] = 8

    def run():
        with fl.graph() as g:
            g.add(slow, fl.update(A.tiles[0, 0]))
            g.add(nested, fl.update(A.tiles[0, 0]), fl.write(A.tiles[1, 0]))

    thread = threading.Thread(target=run)
    with fl.transaction(path):
        thread.start()
        assert started.wait(30)
        threading.Timer(0.2, go.set).start()
    assert go.is_set()
    thread.join()
    values["A"][:64, :64] = 9
    values["A"][64:128, :64] = 8
    values["A"][200, 0] = 3
    values["B"][3, 3] = 4
    for name in "AB":
        assert np.array_equal(read(path, name), values[name])
    assert fl.check(path).ok


def test_threads_share_a_block(tmp_path):
    """Many first assignments at once, and several into one chunk."""
    path = tmp_path / "data.zarr"
    names = [f"a{i}" for i in range(6)]
    values = made(path, names)
    handles = [fl.open(path / name, mode="r+") for name in names]
    errors = []

    def rows(i):
        try:
            for k in range(12):
                handles[(i + k) % 6][i, 1:] = k
        except BaseException as error:
            errors.append(error)

    with fl.transaction(path):
        threads = [threading.Thread(target=rows, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    for i in range(6):
        for k in range(12):
            values[names[(i + k) % 6]][i, 1:] = k
    for name in names:
        assert np.array_equal(read(path, name), values[name])


@pytest.mark.alone
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside threads
def test_a_forked_child_does_not_keep_the_lock(group):
    path, _ = group
    A = fl.open(path / "A", mode="r+")
    awake, asleep = os.pipe()
    with fl.transaction(path):
        A[0, 0] = 5
        child = os.fork()
        if child == 0:
            os.close(asleep)
            os.read(awake, 1)  # until the parent closes its end
            os._exit(0)
    A[0, 1] = 6
    os.close(asleep)
    assert os.waitpid(child, 0)[1] == 0
    os.close(awake)
    assert read(path, "A")[0, :2].tolist() == [5, 6]


def test_bad_input(group, tmp_path):
    path, _ = group
    with pytest.raises(FileNotFoundError):
        fl.transaction(tmp_path / "nothing")
    np.save(tmp_path / "a.npy", np.zeros((3, 3)))
    with pytest.raises(fl.FormatError, match="no Zarr group"):
        fl.transaction(tmp_path / "a.npy")
    with (
        fl.transaction(path),
        pytest.raises(fl.Error, match="one is open"),
        fl.transaction(path / "A"),
    ):
        pass
    with fl.transaction(path):  # nothing was assigned
        pass


def test_space_does_not_grow_with_updates(group):
    path, values = group
    A = fl.open(path / "A", mode="r+")
    shard = path / "A" / "c" / "0" / "0"
    for i in range(30):
        A[...] = values["A"] = values["A"] + i
    assert np.array_equal(read(path, "A"), values["A"])
    assert shard.stat().st_blocks * 512 <= 3 * A.nbytes


KILLED = """
import itertools, sys
import flagstone as fl
path = sys.argv[1]
A, B = (fl.open(f"{path}/{name}", mode="r+") for name in "AB")
round = int(A[0, 0])
print("ready", flush=True)
while True:
    round += 1
    with fl.transaction(path):
        A[...] = round
        B[...] = -round
        A[7:9, ::3] = round
    print(round, flush=True)
"""


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(tmp_path, seed):
    """0 torn, 0 lost after a returned commit, 0 unreadable by peers once a writer has looked at it."""
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "data.zarr"
    for name in "AB":
        array = fl.create(path / name, SHAPE, "float64", chunks=(64, 64))
        array[...] = 0
        array.close()
    moments = random.Random(seed)
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert writer.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.0, 0.25))
        writer.send_signal(signal.SIGKILL)
        told = [int(line) for line in writer.communicate()[0].split() if line.strip().isdigit()]
        a, b = read(path, "A"), read(path, "B")
        assert (a == a[0, 0]).all()  # not torn
        assert (b == -a[0, 0]).all()
        if told:
            assert a[0, 0] >= told[-1]  # not lost
        with fl.transaction(path):  # a writer recovers
            for name in "AB":
                fl.open(path / name, mode="r+")[0, 0] = a[0, 0] if name == "A" else -a[0, 0]
        peers = zarr.open_group(path, mode="r")
        assert np.array_equal(peers["A"][...], a)
        assert np.array_equal(peers["B"][...], b)
        assert fl.check(path).ok


def test_a_job_that_reads_sees_one_moment_or_says_so(tmp_path):
    """Slots of the old moment are free after a commit: a job across one is an error."""
    place = str(tmp_path / "a.zarr")
    a = fl.create(place, (512, 512), "f8", chunks=(128, 128))
    a[...] = 1
    reader, seen = fl.open(place), []

    def run(commits: int) -> None:
        seen.clear()
        with fl.Runtime(workers=1), fl.graph() as graph:  # one committer at a time
            for i in range(16):
                box = reader.tiles[i // 4, i % 4]

                def look(view, i=i):
                    seen.append(float(view[0, 0]))
                    if i < commits:
                        fl.open(place, mode="r+")[...] = i + 2

                graph.add(look, fl.read(box))

    for commits in (1, 16):  # once; so often that slots are used again under the job
        with pytest.raises(fl.StorageError, match="again"):
            run(commits)
    run(commits=0)
    assert len(set(seen)) == 1


@pytest.mark.parametrize("codec", ["raw", "zstd:1"])
def test_what_is_computed_of_the_array_itself_is_one_pass_and_one_transaction(tmp_path, rng, codec):
    values = rng.standard_normal((2048, 1024))
    fl.from_numpy(values, tmp_path / "a.zarr", chunks=(256, 512), codec=codec)
    with pytest.raises(fl.StorageError, match="open it with mode='r\\+'"):
        A = fl.open(tmp_path / "a.zarr")
        A[A > 0] = 1
    A = fl.open(tmp_path / "a.zarr", mode="r+")
    with fl.Runtime(memory=fl._core.resident_bytes() + (500 << 20)):  # beside what other tests left
        A[A > 0.5] = 0
        done = fl.stats()
        A[...] = 2 * A + A.mean(0)
    assert done.passes == 1
    assert max(done.bytes_read, done.bytes_written) <= 1.02 * values.nbytes
    wanted = np.where(values > 0.5, 0, values)
    wanted = 2 * wanted + np.asarray(fl.from_numpy(wanted).mean(0))
    assert np.array_equal(A[...], wanted)
    with pytest.raises(RuntimeError), fl.transaction(tmp_path / "a.zarr"):
        A[A < 0] = 7
        assert (A[...] >= 0).all()
        raise RuntimeError
    assert np.array_equal(A[...], wanted)
    assert (report := fl.check(tmp_path / "a.zarr")).ok
    assert report.verified == report.stored
