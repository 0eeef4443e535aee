"""Arrays on disk: create, open, read, write, refuse."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import write_npy_at_odd_offset

ALL_DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def values(shape, dtype):
    count = int(np.prod(shape))
    a = (np.arange(count) % 251).reshape(shape)
    return (a + 0.5j * a).astype(dtype) if np.dtype(dtype).kind == "c" else a.astype(dtype)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("shape", [(7,), (300, 45), (5, 6, 33), (2, 3, 4, 5)])
def test_write_flush_reopen(tmp_path, shape, dtype):
    x = values(shape, dtype)
    a = fl.create(str(tmp_path / "a.zarr"), shape, dtype)
    assert (a.shape, a.ndim, a.nbytes) == (shape, len(shape), x.nbytes)
    assert np.dtype(a.dtype) == x.dtype
    a[...] = x
    a.flush()
    np.testing.assert_array_equal(fl.open(str(tmp_path / "a.zarr"))[...], x)


def test_absent_chunks_are_zero_and_cost_nothing(tmp_path):
    a = fl.create(str(tmp_path / "a.zarr"), (1 << 20, 1 << 12), "float64", chunks=(512, 512))
    np.testing.assert_array_equal(a[1000:1010, 50:60], np.zeros((10, 10)))
    used = sum(f.stat().st_blocks * 512 for f in (tmp_path / "a.zarr").rglob("*") if f.is_file())
    assert used < 1 << 20


@examples(60)
@given(data=st.data())
def test_any_box_reads_and_writes(tmp_path_factory, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3), label="shape"))
    chunks = tuple(data.draw(st.sampled_from([1, 4, 16, 64]), label="chunk") for _ in shape)
    path = str(tmp_path_factory.mktemp("box") / "a.zarr")
    a = fl.create(path, shape, "int32", chunks=chunks)
    truth = np.zeros(shape, np.int32)
    for step in range(3):
        box = []
        for extent in shape:
            start = data.draw(st.integers(0, extent))
            box.append(slice(start, data.draw(st.integers(start, extent))))
        box = tuple(box)
        truth[box] = step + 1 + np.arange(truth[box].size).reshape(truth[box].shape)
        a[box] = truth[box]
        np.testing.assert_array_equal(a[box], truth[box])
    np.testing.assert_array_equal(a[...], truth)
    a.flush()
    np.testing.assert_array_equal(fl.open(path)[...], truth)


def test_indexing_as_numpy(tmp_path):
    x = values((40, 30), "float32")
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    for key in [
        np.s_[3:7, 2:9],
        np.s_[5],
        np.s_[-1],
        np.s_[:, -3:],
        np.s_[...],
        np.s_[4, 5],
        np.s_[10:],
        np.s_[7:7],
    ]:
        np.testing.assert_array_equal(a[key], x[key])
    with pytest.raises(IndexError):
        a[40]
    with pytest.raises(IndexError):
        a[0, 0, 0]
    for key in ([0, 2], np.array([0, 2]), np.array([True, False])):  # of an expression
        with pytest.raises(
            TypeError, match=f"^index: {type(key).__name__} is not possible here; use .* compute"
        ):
            (a + 1)[key]
    for key in (1.5, True, "a"):
        with pytest.raises(IndexError, match=f"^index: {type(key).__name__} is not possible here; use"):
            (a + 1)[key]


def test_assignment_broadcasts_scalars_and_checks_shapes(tmp_path):
    a = fl.create(str(tmp_path / "a.zarr"), (20, 30), "float64", chunks=(8, 8))
    a[2:9, 5:] = 7
    truth = np.zeros((20, 30))
    truth[2:9, 5:] = 7
    np.testing.assert_array_equal(a[...], truth)
    with pytest.raises(ValueError, match="7 x 25|7, 25"):
        a[2:9, 5:] = np.ones((3, 3))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_npy_opens_in_place(tmp_path, order, dtype):
    x = np.array(values((37, 53), dtype), order=order)
    np.save(tmp_path / "x.npy", x)
    before = sorted(p.name for p in tmp_path.iterdir())
    a = fl.open(str(tmp_path / "x.npy"))
    np.testing.assert_array_equal(a[...], x)
    np.testing.assert_array_equal(a[3:20, 7:11], x[3:20, 7:11])
    np.testing.assert_array_equal(a.T[7:11, 3:20], x.T[7:11, 3:20])
    assert sorted(p.name for p in tmp_path.iterdir()) == before  # no copy


def test_npy_at_any_offset(tmp_path):
    x = values((1000, 33), "float64")
    write_npy_at_odd_offset(tmp_path / "odd.npy", x)
    np.testing.assert_array_equal(np.load(tmp_path / "odd.npy"), x)
    np.testing.assert_array_equal(fl.open(str(tmp_path / "odd.npy"))[...], x)


def test_npy_of_the_other_byte_order(tmp_path):
    x = values((40, 30), "float64").astype(">f8")
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(fl.open(str(tmp_path / "x.npy"))[...], x)
    product = fl.matmul(fl.open(str(tmp_path / "x.npy")), np.eye(30))
    np.testing.assert_array_equal(product[...], x)


def test_npy_is_written_in_place(tmp_path):
    x = values((50, 60), "float32")
    np.save(tmp_path / "x.npy", x)
    a = fl.open(str(tmp_path / "x.npy"), mode="r+")
    a[10:20, 30:40] = -1
    a.flush()
    x[10:20, 30:40] = -1
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)


def test_read_only_by_default(tmp_path):
    fl.from_numpy(np.ones((4, 4)), str(tmp_path / "a.zarr"))
    a = fl.open(str(tmp_path / "a.zarr"))
    with pytest.raises((ValueError, OSError), match="r\\+"):
        a[0, 0] = 1


def test_create_needs_overwrite(tmp_path):
    path = str(tmp_path / "a.zarr")
    fl.from_numpy(np.ones((4, 4)), path)
    with pytest.raises(FileExistsError, match="overwrite"):
        fl.create(path, (3, 3), "float32")
    with pytest.raises(FileExistsError, match="overwrite"):
        fl.from_numpy(np.zeros((2, 2)), path)
    np.testing.assert_array_equal(fl.open(path)[...], np.ones((4, 4)))
    fl.from_numpy(np.zeros((2, 2)), path, overwrite=True)
    np.testing.assert_array_equal(fl.open(path)[...], np.zeros((2, 2)))
    assert fl.create(path, (3, 5), "float32", overwrite=True).shape == (3, 5)


def test_replaced_array_stays_readable_for_who_has_it_open(tmp_path):
    path = str(tmp_path / "a.zarr")
    old = fl.from_numpy(np.full((300, 300), 1.0), path)
    old = fl.open(path)
    fl.from_numpy(np.full((200, 200), 2.0), path, overwrite=True)
    np.testing.assert_array_equal(old[...], np.full((300, 300), 1.0))
    np.testing.assert_array_equal(fl.open(path)[...], np.full((200, 200), 2.0))


@pytest.mark.parametrize("flushed", [True, False])
def test_flat_files_are_dirty_until_flush(tmp_path, flushed):
    path = str(tmp_path / "a.npy")
    code = f"""
import os, flagstone as fl
a = fl.create({path!r}, (100, 100), "float32")
a[:50] = 1
if {flushed}:
    a.flush()
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 9
    if flushed:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(fl.open(path)[:50], np.ones((50, 100), np.float32))
    else:
        with pytest.warns(UserWarning, match="flush"):
            fl.open(path)


def test_np_asarray_loads_what_fits(tmp_path):
    x = values((100, 70), "float32")
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(np.asarray(a, dtype="float64"), x.astype("float64"))
    np.testing.assert_array_equal(np.asarray(a.T), x.T)


def test_np_asarray_refuses_above_the_limit(tmp_path):
    a = fl.create(str(tmp_path / "a.zarr"), (1 << 20, 1 << 20), "float64")
    with pytest.raises(MemoryError, match="8 TiB|8192"):
        np.asarray(a)
    with pytest.raises(MemoryError, match="8 TiB|8192"):
        a[...]


@pytest.mark.parametrize(
    "function",
    [
        np.sort,
        np.partition,
        np.linalg.svd,
        lambda a: np.vstack([a, a]),
        lambda a: np.kron(a, a),
        lambda a: np.add(a, 1, out=np.ones((8, 8))),
    ],
)
def test_numpy_functions_do_not_load_an_array(tmp_path, function):
    a = fl.from_numpy(np.ones((8, 8)), str(tmp_path / "a.zarr"))
    with pytest.raises(TypeError):
        function(a)


def test_matmul_operator_with_ndarrays_on_either_side(tmp_path, rng):
    x, y = rng.random((8, 5)), rng.random((5, 7))
    a, b = fl.from_numpy(x, str(tmp_path / "a.zarr")), fl.from_numpy(y, str(tmp_path / "b.zarr"))
    for product in (a @ b, a @ y, x @ b):
        assert isinstance(product, fl.Array)
        np.testing.assert_allclose(product[...], x @ y, rtol=1e-14)


def test_pickle_by_path(tmp_path):
    x = values((30, 20), "float64")
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    packed = pickle.dumps(a)
    assert len(packed) < 2000
    np.testing.assert_array_equal(pickle.loads(packed)[...], x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a.T))[...], x.T)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fl.open(str(tmp_path / "a.zarr"))))[...], x)


def test_views_share_and_name_themselves(tmp_path):
    x = values((30, 20), "complex128")
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    assert a.T.shape == (20, 30)
    assert a.T.T.shape == (30, 20)
    np.testing.assert_array_equal(a.T[...], x.T)
    np.testing.assert_array_equal(a.conj()[...], x.conj())
    np.testing.assert_array_equal(a.T.conj()[3:5], x.T.conj()[3:5])
    for part in ("30", "20", "complex128"):
        assert part in repr(a)


def test_tiles_and_chunks(tmp_path):
    a = fl.create(str(tmp_path / "a.zarr"), (5000, 3000), "float32", chunks=(256, 512))
    assert tuple(a.chunks) == (256, 512)
    assert len(tuple(a.tiles)) >= 1


def test_from_numpy_without_a_path_lives_in_scratch(tmp_path, rng):
    x = rng.random((300, 200))
    a = fl.from_numpy(x)
    np.testing.assert_array_equal(a[...], x)


def test_from_numpy_orders_and_strides(tmp_path, rng):
    x = rng.random((31, 47, 5))
    for i, y in enumerate([x, np.asfortranarray(x), x[::2, 3:], x.transpose(2, 0, 1), x[::-1]]):
        np.testing.assert_array_equal(fl.from_numpy(y, str(tmp_path / f"{i}.zarr"))[...], y)


def test_empty_arrays(tmp_path):
    for i, shape in enumerate([(0,), (0, 5), (4, 0)]):
        a = fl.from_numpy(np.zeros(shape), str(tmp_path / f"{i}.zarr"))
        assert fl.open(str(tmp_path / f"{i}.zarr"))[...].shape == shape
        assert a.nbytes == 0


def test_a_forked_child_reads_again(tmp_path, isolated):
    result = isolated(
        """
        import multiprocessing as mp
        x = np.arange(90000.).reshape(300, 300)
        a = fl.from_numpy(x, "a.zarr")
        b = a @ a
        def child(queue):
            queue.put(float((a @ a)[0, 0]) == float(b[0, 0]))
        context = mp.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        result = queue.get(timeout=60)
        process.join()
        """
    )
    assert result is True


def test_threads_use_one_runtime_at_once(tmp_path, rng):
    from concurrent.futures import ThreadPoolExecutor

    x = rng.random((400, 400))
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    with ThreadPoolExecutor(4) as pool:
        for product in pool.map(lambda _: fl.matmul(a, a)[...], range(4)):
            np.testing.assert_allclose(product, x @ x, rtol=1e-12)


def test_features_and_stats(tmp_path, rng):
    assert fl.features()
    a = fl.from_numpy(rng.random((300, 300)), str(tmp_path / "a.zarr"))
    fl.matmul(a, a)
    stats = fl.stats()
    assert stats.flops == pytest.approx(2 * 300**3, rel=0.05)
    for name in ("bytes_read", "bytes_written", "seconds", "peak_memory"):
        assert getattr(stats, name) >= 0


@pytest.mark.parametrize("how", ["npy", "zarr", "memory", "created"])
def test_arrays_without_dimensions(tmp_path, how):
    if how == "npy":
        np.save(tmp_path / "n.npy", np.array(7.0))
        a = fl.open(tmp_path / "n.npy", mode="r+")
    elif how == "created":
        a = fl.create(tmp_path / "c.zarr", (), "f8")
        a[()] = 7
    else:
        a = fl.from_numpy(np.array(7.0), tmp_path / "z.zarr" if how == "zarr" else None)
    assert (a.shape, a[()], a[...], float(np.asarray(a))) == ((), 7, 7, 7)
    a[...] = 8.5
    a.flush()
    assert a[()] == 8.5
    assert (a + 1)[()] == 9.5
    assert float(fl.compute(a * 2)[()]) == 17
    assert float(a.sum()) == 8.5
    assert a.T[()] == 8.5
    if how == "zarr":
        assert fl.open(tmp_path / "z.zarr")[()] == 8.5


@pytest.mark.parametrize(("dtype", "value", "error"), [
    ("i1", 300, OverflowError), ("u1", [1, -1], OverflowError), ("i4", np.nan, ValueError),
    ("f8", 1 + 2j, TypeError), ("i8", 2**70, OverflowError),
])  # fmt: skip
def test_assigned_numbers_that_the_dtype_cannot_hold_are_refused_as_by_numpy(tmp_path, dtype, value, error):
    with pytest.raises(error):
        np.zeros((3, 2), dtype)[...] = value
    a = fl.create(tmp_path / "a.zarr", (3, 2), dtype)
    with pytest.raises(error):
        a[...] = value
    a[...] = [3, 4]
    assert a[2, 1] == 4
