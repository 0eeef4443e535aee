"""Requests: any selection, read and assigned as NumPy would, in whole chunks and one moment."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flagstone as fl
from flagstone import _core
from flagstone._array.array import Array
from tests.support.examples import examples

SHAPE = (37, 29, 11)
KINDS = ("zarr", "packed", "npy", "memory", "transposed", "conjugated")
WRITABLE = [kind for kind in KINDS if kind != "packed"]


def make(kind, folder, values):
    path = str(folder / f"{kind}.{'npy' if kind == 'npy' else 'zarr'}")
    if kind == "memory":
        return fl.from_numpy(values.copy())
    if kind == "npy":
        np.save(path, values)
        return fl.open(path, mode="r+")
    stored = values.T if kind == "transposed" else values.conj() if kind == "conjugated" else values
    chunks = (4, 8, 10) if kind == "transposed" else (10, 8, 4)
    if kind == "packed":
        core = _core.create_zarr(path, list(SHAPE), stored.dtype.name, chunks=list(chunks), codec="blosc-lz4")
        Array(core, "r+")[...] = stored
        core.flush()
        return fl.open(path)
    A = fl.create(path, stored.shape, stored.dtype, chunks=chunks)
    A[...] = stored
    return A.T if kind == "transposed" else A.conj() if kind == "conjugated" else A


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    rng = np.random.default_rng(3)
    folder, out = tmp_path_factory.mktemp("requests"), {}
    for kind in KINDS:
        values = rng.integers(0, 1000, SHAPE).astype("complex64" if kind == "conjugated" else "float32")
        if kind == "conjugated":
            values += 1j * rng.random(SHAPE).astype("float32")
        out[kind] = make(kind, folder, values), values
    return out


def axis_index(extent, arrays=True):
    number = st.integers(-extent, extent - 1)
    steps = st.builds(
        slice, st.none() | number, st.none() | number, st.sampled_from([None, 1, 2, 3, 7, -1, -2, -5])
    )
    kinds = [number, steps, steps]
    if arrays:
        kinds.append(st.lists(number, max_size=9))
        kinds.append(st.lists(st.booleans(), min_size=extent, max_size=extent).map(np.array))
    return st.one_of(*kinds)


def one_list(key):
    """Not more than one array: several are paired and need one shape."""
    return sum(isinstance(k, (list, np.ndarray)) for k in key) < 2


keys = st.tuples(*(axis_index(n) for n in SHAPE)).filter(one_list) | st.tuples(axis_index(SHAPE[0]))
rows = st.integers(0, 6).flatmap(
    lambda n: st.tuples(
        *(st.lists(st.integers(-e, e - 1), min_size=n, max_size=n).map(np.array) for e in SHAPE)
    )
)
some = examples(60, HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@pytest.mark.parametrize("kind", KINDS)
@some
@given(key=keys)
def test_reads_what_numpy_reads(arrays, kind, key):
    A, values = arrays[kind]
    expected, found = values[key], A[key]
    assert np.shape(found) == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", WRITABLE)
@some
@given(key=keys, seed=st.integers(0, 99))
def test_assigns_what_numpy_assigns(arrays, kind, key, seed):
    A, values = arrays[kind]
    numbers = np.random.default_rng(seed).integers(0, 1000, values[key].shape).astype(values.dtype)
    given = numbers if seed % 3 else values.dtype.type(seed)
    values[key] = given
    A[key] = given
    np.testing.assert_array_equal(A[...], values)


@pytest.mark.parametrize("kind", ["zarr", "packed", "npy", "transposed"])
@some
@given(points=rows, last=axis_index(SHAPE[2], arrays=False), first=st.booleans())
def test_pairs(arrays, kind, points, last, first):
    A, values = arrays[kind]
    points = [p.astype(int) for p in points]
    key = (
        (points[0], points[1], last)
        if first
        else (points[0], last, points[2])
        if isinstance(last, int)
        else tuple(points)
    )
    if key[1] is last:
        key = (points[0], last % SHAPE[1], points[2])
    np.testing.assert_array_equal(A[key], values[key])
    separated = (points[0], slice(None, None, 2), points[2])
    np.testing.assert_array_equal(A[separated], values[separated])
    for chosen in (key, separated) if A.mode == "r+" else ():
        numbers = np.arange(values[chosen].size, dtype=values.dtype).reshape(values[chosen].shape)
        values[chosen] = numbers
        A[chosen] = numbers
        np.testing.assert_array_equal(A[...], values)


@pytest.mark.parametrize("kind", KINDS)
@some
@given(data=st.data())
def test_new_dimensions(arrays, kind, data):
    """None adds a dimension to what the rest of a basic index selects, as NumPy has it."""
    A, values = arrays[kind]
    key = data.draw(hnp.basic_indices(SHAPE, allow_newaxis=True, max_dims=6))
    found = A[key]
    assert np.shape(found) == values[key].shape
    np.testing.assert_array_equal(found, values[key])
    assert A[None, 3, 4, 5].shape == (1,)
    with pytest.raises(IndexError, match="None beside arrays"):
        A[None, [1, 2]]


@pytest.mark.parametrize("kind", KINDS)
def test_masks_and_products(arrays, kind):
    A, values = arrays[kind]
    rng = np.random.default_rng(1)
    mask = rng.random(SHAPE) < 0.1
    np.testing.assert_array_equal(A[mask], values[mask])
    np.testing.assert_array_equal(A[mask[:, :, 0]], values[mask[:, :, 0]])
    np.testing.assert_array_equal(A[:, mask[0]], values[:, mask[0]])
    chosen = np.ix_([3, 1, 30], [2, 2, 28], [0, 10])
    np.testing.assert_array_equal(A[chosen], values[chosen])
    np.testing.assert_array_equal(
        A.oindex[[3, 1, 30], ::-2, [0, 10]], values[[3, 1, 30]][:, ::-2][..., [0, 10]]
    )
    np.testing.assert_array_equal(A.oindex[5, [1, 2], :], values[5, [1, 2], :])
    np.testing.assert_array_equal(A[0, :, [1, 2]], values[0, :, [1, 2]])  # dimensions of arrays first
    np.testing.assert_array_equal(A[[[1, 2], [3, 4]]], values[[[1, 2], [3, 4]]])
    if A.mode == "r":
        return
    A[mask] = 7
    values[mask] = 7
    A.oindex[[3, 1], :, [0, 10]] = np.arange(2 * 29 * 2).reshape(2, 29, 2)
    values[np.ix_([3, 1], range(29), [0, 10])] = np.arange(2 * 29 * 2).reshape(2, 29, 2)
    np.testing.assert_array_equal(A[...], values)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (([0, 40],), "40 is out of bounds for axis 0 with 37"),
        (([0.5],), "integers or a mask"),
        ((np.zeros(5, bool),), "a mask of (5,) was given for dimensions of (37,)"),
        (([0, 1], [0, 1, 2]), "cannot be paired"),
        (([0], [0], [0], [0]), "4 indices were given and the array has 3"),
        ((..., [0], ...), "only one ellipsis"),
    ],
)
def test_what_is_refused(arrays, key, says):
    with pytest.raises(IndexError, match=says.replace("(", r"\(").replace(")", r"\)")):
        arrays["zarr"][0][key]


def moved():
    with open("/proc/self/io") as lines:
        return {k: int(v) for k, v in (line.split(":") for line in lines)}


def test_every_chunk_is_read_once(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (1024, 1024), "float64", chunks=(128, 128))
    values = np.arange(1024 * 1024.0).reshape(1024, 1024)
    A[...] = values
    with fl.open(tmp_path / "a.zarr") as B:
        B[0, 0], B[1023, 1023]  # indexes of the shards
        before = moved()["read_bytes"]
        np.testing.assert_array_equal(
            B[np.arange(1023, -1, -1) % 512, ::3], values[np.arange(1023, -1, -1) % 512, ::3]
        )
        after = moved()["read_bytes"]
    if after > before:  # a file system that the kernel counts
        assert after - before <= 512 * 1024 * 8 * 1.02


def test_segments(arrays):
    for kind in ("zarr", "packed", "npy", "transposed"):
        A, values = arrays[kind]
        for key in (..., np.s_[3:30:2, ::-1], np.s_[5], np.s_[:, 4, 1:], np.s_[0:0], np.s_[::-3, 2:9, ::-2]):
            for nbytes in (64, 1000, 5000, "1MiB"):
                out = np.full_like(values[key], -1)
                for where, part in A.segments(key, nbytes=nbytes):
                    assert (out[where] == -1).all()
                    out[where] = part
                np.testing.assert_array_equal(out, values[key])


def test_segments_work_with_the_least_that_they_name(isolated):
    """The piece before is still the caller's when the next but one is asked for: that one waits for it."""
    steps, over = isolated(
        """
        from tests.support.processes import peak_memory, reset_peak
        np.save("a.npy", np.ones((4096, 4096), "float32"))
        a, limit, steps = fl.open("a.npy"), 1 << 20, 0
        while True:
            reset_peak()
            try:
                with fl.Runtime(memory=limit):
                    assert sum(int(part.sum()) for _, part in a.segments(nbytes="16MiB")) == a.size
                break
            except fl.BudgetError as error:
                limit, steps = error.least, steps + 1
        result = steps, peak_memory() - limit
        """
    )
    assert steps == 1
    assert over <= 0


def test_segments_end_where_the_caller_ends(arrays):
    A, values = arrays["zarr"]
    for number, (_where, part) in enumerate(A.segments(nbytes=1280)):
        assert part.nbytes <= 1280
        if number == 2:
            break
    np.testing.assert_array_equal(A[...], values)

    seen = []

    def callback(where, part):
        seen.append(where)
        if len(seen) == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        A.each_segment(callback, nbytes=1280)
    assert len(seen) == 3
    np.testing.assert_array_equal(A[...], values)


def test_segments_are_of_one_moment(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (64, 64), "float64", chunks=(8, 64))
    A[...] = 1
    B = fl.open(tmp_path / "a.zarr")
    with pytest.raises(fl.StorageError, match="was changed while it was read"):
        for _ in B.segments(nbytes=8 * 64 * 8):
            A[0] = 2
    with fl.transaction(tmp_path / "a.zarr"):  # its own changes are seen
        for where, part in A.segments(nbytes=8 * 64 * 8):
            A[where] = part + 1
    assert (A[0] == 3).all()
    assert (A[1:] == 2).all()


def test_rows_that_are_assigned_one_by_one_are_written_once(tmp_path):
    path, side = tmp_path / "a.zarr", 1024
    A = fl.create(path, (side, side), "float64", chunks=(256, 256))
    values = np.random.default_rng(0).random((side, side))
    A[...] = 0  # its shards are there
    os.sync()
    before = moved()["write_bytes"]
    with fl.transaction(path):
        for row in range(side):
            A[row] = values[row]
            if row % 100 == 0:
                np.testing.assert_array_equal(A[: row + 1, ::5], values[: row + 1, ::5])  # seen at once
                assert not A[row + 1 :].any()
    os.sync()
    written = moved()["write_bytes"] - before
    np.testing.assert_array_equal(A[...], values)
    np.testing.assert_array_equal(fl.open(path)[...], values)
    assert written <= 1.05 * values.nbytes


def test_what_waits_reaches_jobs_and_commits(tmp_path):
    path = tmp_path / "a.zarr"
    A = fl.create(path, (100, 100), "float64", chunks=(32, 32))
    A[...] = 1
    with fl.transaction(path):
        A[5] = 2
        A[:, 7] = 3
        A.T[2] = 4
        assert float(fl.sum(A)) == float(A[...].sum())  # a job looks on the disk
        A[6, ::2] = 5
        inside = A[...]
    np.testing.assert_array_equal(fl.open(path)[...], inside)
    assert inside[5, 0] == 2
    assert inside[0, 7] == 3
    assert inside[9, 2] == 4
    assert inside[6, 4] == 5
    with pytest.raises(RuntimeError), fl.transaction(path):
        A[50] = 9
        raise RuntimeError
    np.testing.assert_array_equal(A[...], inside)


def test_a_flush_writes_what_waits(tmp_path):
    path = tmp_path / "a.zarr"
    A = fl.create(path, (256, 1 << 13), "float64", chunks=(256, 256))
    A[...] = 0
    with pytest.raises(RuntimeError), fl.transaction(path):
        A[7] = 1  # a part of every chunk
        os.sync()
        before = moved()["write_bytes"]
        A.flush()
        assert moved()["write_bytes"] - before >= A.nbytes
        A.flush()  # nothing waits any more
        assert (A[7] == 1).all()
        raise RuntimeError
    assert not A[...].any()  # it was part of the transaction


def test_small_writes_stay_within_the_limit(isolated):
    peak, limit, same, written = isolated(
        """
        from flagstone import _core
        A = fl.create("a.zarr", (2048, 8192), "float64", chunks=(512, 512))
        base = _core.resident_bytes()
        limit = base + (80 << 20)
        _core.reset_peak_resident()
        before = int(open("/proc/self/io").read().split("write_bytes: ")[1].split()[0])
        with fl.Runtime(memory=limit), fl.transaction("a.zarr"):
            for turn in range(0, 4096, 16):         # every chunk in part, twice; 128 MiB in all
                A[turn % 2048 : turn % 2048 + 1] = turn
        peak = _core.peak_resident_bytes()
        written = int(open("/proc/self/io").read().split("write_bytes: ")[1].split()[0]) - before
        rows = A[:, 0]
        expected = np.zeros(2048)
        for turn in range(0, 4096, 16):
            expected[turn % 2048] = turn
        result = [peak, limit, bool((rows == expected).all() and (A[:, 8191] == expected).all()), written]
        """
    )
    assert same
    assert peak <= limit
    assert written < 2 << 30  # a row crosses 16 chunks of 2 MiB, one or two more than have room: 256 rows


def test_results_are_memory_like_any_other(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (512, 512), "float64", chunks=(128, 128))
    A[...] = 1
    part = A[...]
    assert part.flags.writeable
    assert part.flags.c_contiguous
    assert part.flags.aligned
    part += 1
    again = A[...]  # its memory is used by nobody else
    assert (part == 2).all()
    assert (again == 1).all()
    view = part[10:20]
    del part, again
    fresh = [A[...] for _ in range(4)]
    assert (view == 2).all()
    assert all((one == 1).all() for one in fresh)


def test_large_results_are_kept_for_the_next_and_count_once(isolated):
    peak, limit, kept, refused, emptied = isolated(
        """
        from flagstone import _core
        A = fl.create("a.zarr", (2048, 4096), "f8", chunks=(512, 512))
        A[...] = 1.0
        part = A[...]
        for _ in range(2):  # one is looked at, one is kept: both are touched
            part = A[...]
        kept = _core.kept_pages(part.nbytes)
        limit = _core.resident_bytes() + (24 << 20)  # what a transfer holds, and no further result
        with fl.Runtime(memory=limit):
            _core.reset_peak_resident()
            part = A[...]
            peak = _core.peak_resident_bytes()
            assert (part == 1).all()
            held = [part, A[...]]  # neither can be used again
            try:
                held.append(A[...])
                refused = False
            except fl.BudgetError:
                refused = True
        del part, held
        had = _core.kept_pages(A.nbytes)
        A[:10] = 2.0  # no read
        result = [peak, limit, kept, refused, had > 0 and _core.kept_pages(A.nbytes) == 0]
        """
    )
    assert kept == 2048 * 4096 * 8
    assert peak <= limit
    assert refused
    assert emptied


@pytest.mark.parametrize(
    ("requests", "unit", "dtype", "dimensions", "expected"),
    [  # parallel requests x access unit, as the rule of N-dimensional storage gives them
        (32, 4096, "float32", 2, (256, 256)),  # 128 KiB are 181 x 181 elements; the next power of two
        (32, 4096, "float64", 2, (128, 128)),
        (32, 4096, "float32", 1, (32768,)),
        (32, 4096, "float32", 3, (32, 32, 32)),
        (32, 4096, "float64", 3, (32, 32, 32)),
        (8, 4096, "float32", 2, (128, 128)),
        (1, 4096, "uint8", 2, (64, 64)),
    ],
)
def test_chunks_by_the_rule(requests, unit, dtype, dimensions, expected):
    shape = (1 << 20,) * dimensions
    assert fl.chunk_shape(shape, dtype, dimensions, requests=requests, unit=unit) == expected


def test_chunks_of_narrow_arrays_and_of_this_machine(tmp_path):
    assert fl.chunk_shape((10, 1 << 20, 16), "float32", requests=32) == (1, 2048, 16)
    assert fl.chunk_shape((5, 3), "float32", requests=32) == (8, 4)
    assert fl.chunk_shape((), "float32", requests=32) == ()
    chunks = fl.chunk_shape((4096, 4096), "float32")
    assert all(n & (n - 1) == 0 for n in chunks)
    A = fl.create(tmp_path / "a.zarr", (4096, 4096), "float32", chunks=chunks)
    assert A.chunks == chunks
    with pytest.raises(fl.ShapeError, match="1, 2 or 3 are possible"):
        fl.chunk_shape((4, 4), "float32", 4)
