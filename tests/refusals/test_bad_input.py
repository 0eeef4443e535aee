"""Bad input: one sentence (who, what was given, what is needed), the right class, nothing left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.error_sentences import fails
from tests.support.processes import random_csr


def test_classes_have_two_bases():
    assert issubclass(fl.ShapeError, fl.Error)
    assert issubclass(fl.ShapeError, ValueError)
    assert issubclass(fl.BudgetError, MemoryError)
    assert issubclass(fl.StorageError, OSError)
    assert issubclass(fl.FormatError, ValueError)
    assert issubclass(fl.NumericalError, np.linalg.LinAlgError)
    assert issubclass(fl.ConvergenceError, fl.NumericalError)


# Shapes and arguments


def test_shapes_that_do_not_conform():
    with fails(fl.ShapeError, "matmul", "4096 x 512", "600 x 2048", "512.*600"):
        fl.matmul(np.zeros((4096, 512), "f4"), np.zeros((600, 2048), "f4"))


def test_vectors_are_refused_or_computed():
    with fails((ValueError, TypeError), "matmul"):
        fl.matmul(np.zeros((3, 3, 3)), np.zeros((4, 3)))


def test_dtypes_that_do_not_conform(tmp_path):
    A = fl.from_numpy(np.zeros((4, 4), "f2"), tmp_path / "a.zarr")
    B = fl.from_numpy(np.zeros((4, 4), "f8"), tmp_path / "b.zarr")
    with fails((ValueError, TypeError), "matmul", "float16"):
        fl.matmul(A, A)
    assert fl.matmul(B.astype("f4"), B).dtype == np.float64


def test_out_of_another_shape_or_dtype(tmp_path):
    wrong = fl.create(str(tmp_path / "w.zarr"), (5, 4), "float64")
    with fails(fl.ShapeError, "matmul", "5 x 4", "4 x 4"):
        fl.matmul(np.zeros((4, 4)), np.zeros((4, 4)), out=wrong)
    wrong = fl.create(str(tmp_path / "v.zarr"), (4, 4), "float32")
    with fails((ValueError, TypeError), "matmul", "float32", "float64"):
        fl.matmul(np.zeros((4, 4)), np.zeros((4, 4)), out=wrong)


def test_beta_without_out():
    with fails(ValueError, "matmul", "beta", "out"):
        fl.matmul(np.zeros((4, 4)), np.zeros((4, 4)), beta=1)


def test_beta_with_a_path_that_does_not_exist(tmp_path):
    with fails((ValueError, OSError), "c.zarr"):
        fl.matmul(np.zeros((4, 4)), np.zeros((4, 4)), beta=1, out=str(tmp_path / "c.zarr"))


@pytest.mark.parametrize("k", [0, -1, 31, 10**12])
def test_k_out_of_range(k):
    with fails(ValueError, "pca", re.escape(str(k)), "30"):
        fl.pca(np.random.default_rng(0).random((50, 30)), k)


@pytest.mark.parametrize("memory", ["much", "", -5, 0, "5 apples", float("nan")])
def test_memory_that_is_no_size(memory):
    with fails((ValueError, TypeError, MemoryError), "memory"):
        fl.matmul(np.zeros((4, 4)), np.zeros((4, 4)), memory=memory)


@pytest.mark.parametrize("said", ["much", "0", "-1", "1e30"])
def test_an_environment_that_holds_no_size(monkeypatch, said):
    monkeypatch.setenv("FLAGSTONE_MEMORY", said)
    sentence = f'FLAGSTONE_MEMORY: \'{said}\' is no size; give bytes or text such as "512MiB" or "4GiB".'
    with pytest.raises(ValueError, match=re.escape(sentence)):
        fl.Runtime()


@pytest.mark.parametrize(
    "arguments", [{"method": "magic"}, {"tol": -1}, {"tol": 0}, {"tol": float("nan")}, {"seed": -1}]
)
def test_pca_arguments(arguments):
    with fails((ValueError, TypeError), "pca", next(iter(arguments))):
        fl.pca(np.random.default_rng(0).random((50, 30)), 3, **arguments)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_pca_of_complex_numbers(dtype):
    with fails((ValueError, TypeError), "pca", dtype):
        fl.pca(np.ones((50, 30), dtype), 3)


def test_create_with_bad_arguments(tmp_path):
    for i, arguments in enumerate(
        [((-1, 5), "f4"), ((4, 5), "S10"), ((4, 5), "float128"), ((4, 5), "f4", (0, 3)), ((4, 5), "f4", (3,)),
         (((1 << 62), (1 << 62)), "f8")]
    ):  # fmt: skip
        with fails((ValueError, TypeError), "create|dtype"):
            fl.create(str(tmp_path / f"{i}.zarr"), *arguments)
        assert not (tmp_path / f"{i}.zarr").exists()


# Limits


def test_a_limit_too_small_names_the_least_that_works(isolated):
    text, least, worked = isolated(
        """
        x = np.random.default_rng(0).random((3000, 3000)).astype("f4")
        np.save("x.npy", x)
        a = fl.open("x.npy")
        try:
            fl.matmul(a, a, out="c.zarr", memory="1MiB")
        except fl.BudgetError as error:
            text, least = str(error), error.least
        assert not os.path.exists("c.zarr")
        worked = True
        fl.matmul(a, a, out="c.zarr", memory=int(least * 1.02))
        result = [text, least, worked]
        """
    )
    assert worked
    assert "matmul" in text
    assert "least" in text or "needs" in text
    assert least > 1 << 20


# NaN


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("method", ["gram", "krylov"])
def test_pca_names_the_first_bad_number(tmp_path, rng, bad, kind, method):
    x = rng.random((300, 40))
    x[x < 0.5] = 0
    x[123, 17] = x[200, 3] = x[123, 30] = bad
    if kind == "dense":
        np.save(tmp_path / "x.npy", x)
        path = tmp_path / "x.npy"
    else:
        path = tmp_path / "x.npz"
        sp.save_npz(path, sp.csr_matrix(x))
    with fails((fl.NumericalError, fl.FormatError), "123", "17"):
        fl.pca(fl.open(str(path)), 5, method=method, out=str(tmp_path / "out.zarr"))
    assert not (tmp_path / "out.zarr").exists()


# Destinations


@pytest.fixture
def full_disk():
    """A file system of 16 MiB of our own."""
    path = f"/tmp/flagstone-full-{os.getpid()}"
    os.mkdir(path)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", path], capture_output=True, text=True, check=False
    )
    if done.returncode:
        os.rmdir(path)
        pytest.skip(f"mounting a small tmpfs is not permitted here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", path], check=True)
    os.rmdir(path)


def test_full_destination_is_noticed_before_anything_is_written(full_disk):
    x = np.ones((3000, 3000))
    with fails(fl.StorageError, "MiB") as info:
        fl.matmul(x, x, out=f"{full_disk}/c.zarr")
    assert info.value.errno == 28
    assert os.listdir(full_disk) == []


def test_full_scratch_is_noticed(full_disk):
    x = np.ones((3000, 3000))
    with fl.Runtime(scratch=full_disk), fails(fl.StorageError, "MiB|space"):
        fl.matmul(x, x)
    assert not [f for f in os.listdir(full_disk) if not f.startswith(".")]


def test_enospc_in_the_middle_leaves_the_old_output_whole(full_disk):
    path = f"{full_disk}/c.zarr"
    fl.from_numpy(np.full((100, 100), 3.0), path)
    # Sparse blocks of unknown total length: nobody can check the space beforehand.
    blocks = (random_csr(2000, 3000, 0.7, i) for i in range(10))
    with fails(fl.StorageError, "space|ENOSPC") as info:
        fl.from_blocks(blocks, path, overwrite=True)
    assert info.value.errno == 28
    np.testing.assert_array_equal(fl.open(path)[...], np.full((100, 100), 3.0))
    assert os.listdir(full_disk) == ["c.zarr"]


def test_read_only_destination(tmp_path, isolated):
    folder = tmp_path / "locked"
    folder.mkdir()
    if os.geteuid() == 0:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("root ignores permissions and a read-only mount is not permitted here")
    else:
        folder.chmod(0o500)
    try:
        with fails(fl.StorageError, "locked") as info:
            fl.matmul(np.ones((4, 4)), np.ones((4, 4)), out=str(folder / "c.zarr"))
        assert info.value.errno in (13, 30)
        with fl.Runtime(scratch=str(folder)), fails(fl.StorageError, "locked"):
            fl.matmul(np.ones((4, 4)), np.ones((4, 4)))
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(folder)


def test_paths_that_are_no_text(tmp_path):
    import os

    x = np.ones((2, 2))
    fl.from_numpy(x, os.fsencode(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(fl.open(os.fsencode(tmp_path / "a.zarr"))[...], x)
    for name, words in (("b\udcff.zarr", "is not UTF-8"), ("b\0.zarr", "holds a zero byte")):
        for call in (fl.open, lambda p: fl.from_numpy(x, p), lambda p: fl.create(p, 3, "f4"),
                     lambda p: fl.open_raw(p, "f4", 3)):  # fmt: skip
            with pytest.raises(fl.FormatError, match=words):
                call(f"{tmp_path}/{name}")
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_runtimes_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(fl.StorageError, match="which is a file; name a directory"):
        fl.Runtime(scratch=tmp_path / "file")
    for workers in (0, -1, 10**6):
        with pytest.raises(ValueError, match="1 to 4096 are taken"):
            fl.Runtime(workers=workers)
    with pytest.raises(TypeError, match="a whole number is needed"):
        fl.Runtime(workers=2.5)
    with pytest.raises(ValueError, match="threads_per_task is 100000"):
        fl.Runtime(threads_per_task=100_000)
    for memory in (2**70, float("nan"), float("inf"), -1):
        with pytest.raises(ValueError, match="is no size"):
            fl.matmul(np.eye(2), np.eye(2), memory=memory)
    with fl.Runtime(scratch=tmp_path / "later"):
        (tmp_path / "later").write_text("x")
        with pytest.raises(fl.StorageError, match="later"), fl.graph() as g:
            g.add(lambda: None)
