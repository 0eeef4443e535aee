"""Conversions between formats: there and back, refused, killed, inside the limit."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import flagstone as fl
from tests.formats.test_formats import whole
from tests.support.error_sentences import fails
from tests.support.processes import random_csr


def dense_there_and_back(tmp_path, x, name):
    fl.convert(fl.from_numpy(x), str(tmp_path / name))
    opened = fl.open(str(tmp_path / name))
    np.testing.assert_array_equal(opened[...], x)
    return tmp_path / name


@pytest.mark.parametrize("shape", [(300, 200), (1, 5000), (5000, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c16"])
def test_dense_conversions(tmp_path, rng, shape, dtype):
    x = (100 * rng.random(shape)).astype(dtype)
    np.testing.assert_array_equal(np.load(dense_there_and_back(tmp_path, x, "a.npy")), x)
    np.testing.assert_array_equal(scipy.io.mmread(dense_there_and_back(tmp_path, x, "a.mtx")), x)
    dense_there_and_back(tmp_path, x, "a.zarr")
    h5py = pytest.importorskip("h5py")
    with h5py.File(dense_there_and_back(tmp_path, x, "a.h5")) as file:
        np.testing.assert_array_equal(file["X"][...], x)
    for kind in ("npy", "mtx", "h5"):
        fl.convert(str(tmp_path / f"a.{kind}"), str(tmp_path / f"from-{kind}.zarr"))
        np.testing.assert_array_equal(fl.open(str(tmp_path / f"from-{kind}.zarr"))[...], x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_sparse_conversions(tmp_path, rng, dtype):
    h5py = pytest.importorskip("h5py")
    m = sp.random(900, 70, 0.1, format="csr", random_state=rng)
    m.data = (1 + 99 * m.data).astype(dtype)
    source = fl.from_blocks([m])
    for name in ("a.npz", "a.mtx", "a.mtx.gz", "a.zarr", "a.h5"):
        fl.convert(source, str(tmp_path / name))
        np.testing.assert_array_equal(whole(fl.open(str(tmp_path / name))), m.toarray())
        fl.convert(str(tmp_path / name), str(tmp_path / f"{name}.zarr"))
        again = fl.open(str(tmp_path / f"{name}.zarr"))
        np.testing.assert_array_equal(again.to_scipy().toarray(), m.toarray())
        if "mtx" not in name:  # text has its own three types
            assert again.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "a.npz").toarray(), m.toarray())
    np.testing.assert_array_equal(scipy.io.mmread(tmp_path / "a.mtx.gz").toarray(), m.toarray())
    with h5py.File(tmp_path / "a.h5") as file:
        parts = [file["X"][name][...] for name in ("data", "indices", "indptr")]
        np.testing.assert_array_equal(sp.csr_matrix(tuple(parts), m.shape).toarray(), m.toarray())
    fl.convert(source.T, str(tmp_path / "t.npz"))
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "t.npz").toarray(), m.T.toarray())


def test_conversions_that_are_refused(tmp_path):
    dense, sparse = fl.from_numpy(np.eye(3)), fl.from_blocks([sp.eye(3, format="csr")])
    with fails(fl.FormatError, "sparse", "Zarr"):
        fl.convert(sparse, str(tmp_path / "a.npy"))
    with fails(fl.FormatError, "Parquet", "sparse"):
        fl.convert(sparse, str(tmp_path / "a.parquet"))
    with fails(FileNotFoundError, "directory"):
        fl.convert(dense, str(tmp_path / "nowhere" / "a.npy"))
    fl.convert(dense, str(tmp_path / "a.npy"))
    with fails(FileExistsError, "overwrite"):
        fl.convert(sparse, str(tmp_path / "a.npy"))
    before = (tmp_path / "a.npy").read_bytes()
    with fails(fl.FormatError, "sparse"):
        fl.convert(sparse, str(tmp_path / "a.npy"), overwrite=True)
    assert (tmp_path / "a.npy").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]


def test_a_killed_conversion_leaves_nothing_visible(tmp_path, isolated):
    np.save(tmp_path / "a.npy", np.zeros((3000, 3000)))
    code = """
    import os, signal
    from flagstone._runtime import streaming
    streaming.Reported.at = lambda self, n: os.kill(os.getpid(), signal.SIGKILL) if n > 30 << 20 else None
    fl.convert("a.npy", target)
    """
    for target in ("b.npy", "b.h5", "b.zarr"):
        assert isolated(code, target=target, check=False).returncode == -9
        assert not (tmp_path / target).exists()
        fl.convert(str(tmp_path / "a.npy"), str(tmp_path / target))
        assert fl.open(str(tmp_path / target)).shape == (3000, 3000)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "b.h5", "b.npy", "b.zarr"]


MEASURED = """
from tests.support.processes import peak_memory, reset_peak
fl.matmul(np.ones((8, 64)), np.ones((64, 8)))
with fl.Runtime(memory=limit):
    reset_peak()
    fl.convert(source, target)
    result = peak_memory()
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Large files by name: each is made once."""
    folder = tmp_path_factory.mktemp("large")

    def made(name):
        if not (folder / name).exists():
            make_large(folder / name)
        return folder / name

    return made


def make_large(path):
    n, rng = 4_000_000, np.random.default_rng(20240607)
    if path.name == "a.mtx":
        row, column = np.sort(rng.integers(1, 200_001, n)), rng.integers(1, 3001, n)
        table = np.stack([row, column, rng.integers(1, 9, n)], 1)
        with open(path, "w") as file:
            file.write(f"%%MatrixMarket matrix coordinate integer general\n200000 3000 {n}\n")
            for first in range(0, n, 100_000):
                some = table[first : first + 100_000]
                file.write("%d %d %d\n" * len(some) % tuple(some.ravel().tolist()))
    elif path.name == "s.mtx":
        with open(path, "w") as file:
            file.write("%%MatrixMarket matrix array real symmetric\n3000 3000\n")
            file.writelines("0.5\n" * 3000 for _ in range(1500))
            file.writelines("0.5\n" for _ in range(1500))
    elif path.name == "a.svm":
        line = "1 " + " ".join(f"{j}:{j % 7 + 1}" for j in range(1, 400)) + "\n"
        path.write_text(line * (n // 400))
    elif path.name == "x.h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            made = file.create_dataset(
                "x",
                (8000, 8000),
                "f8",
                chunks=(500, 900),
                compression="gzip",
                compression_opts=1,
                shuffle=True,
            )
            for first in range(0, 8000, 500):
                made[first : first + 500] = rng.integers(0, 9, (500, 8000))
    elif path.name == "t.parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({f"c{i}": rng.random(n) for i in range(12)}), path, row_group_size=100_000)
    else:  # gzip is slow, and as much is in its buffers of fewer values
        some = n // 4 if path.name == "few.npz" else n
        sp.save_npz(path, random_csr(200_000, 3000, some / 6e8, 0), False)


@pytest.mark.parametrize(
    ("source", "target"),
    [("a.mtx", "b.zarr"), ("a.svm", "c.zarr"), ("x.h5", "d.zarr"), ("m.npz", "e.h5"), ("few.npz", "f.mtx.gz"),
     ("t.parquet", "g.zarr"), ("x.h5", "h.npy"), ("s.mtx", "i.zarr")],
)  # fmt: skip
def test_memory_stays_within_the_limit(tmp_path, isolated, large, source, target):
    limit = 400 << 20
    peak = isolated(MEASURED, source=str(large(source)), target=target, limit=limit)
    assert peak <= limit
    shutil.rmtree(tmp_path / target, ignore_errors=True)


def test_overwrite_replaces_stores_and_files_and_nothing_else(tmp_path, rng):
    x = rng.random((20, 10))
    for name in ("a.zarr", "b.npy", "c.h5"):
        fl.convert(fl.from_numpy(x), str(tmp_path / name))
        fl.convert(fl.from_numpy(x + 1), str(tmp_path / name), overwrite=True)
        np.testing.assert_array_equal(whole(fl.open(str(tmp_path / name))), x + 1)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "p.txt").write_text("mine")
    shutil.copytree(tmp_path / "a.zarr", tmp_path / "mixed.zarr")
    (tmp_path / "mixed.zarr" / "notes.txt").write_text("mine")
    (tmp_path / "note.zarr").write_text("mine")
    shutil.copytree(tmp_path / "a.zarr", tmp_path / "within.zarr")
    (tmp_path / "within.zarr" / "array" / "notes.txt").write_text("mine")
    m = sp.random(30, 20, 0.2, format="csr", random_state=1)
    for make in (
        lambda place: fl.convert(fl.from_numpy(x), place, overwrite=True),
        lambda place: fl.from_numpy(x, place, overwrite=True),
        lambda place: fl.create(place, (3, 3), "f4", overwrite=True),
        lambda place: fl.from_blocks([m], place, overwrite=True),
    ):
        for name in ("d", "mixed.zarr", "within.zarr", "note.zarr"):
            with fails(FileExistsError, name, "not replaced"):
                make(str(tmp_path / name))
        make(str(tmp_path / "a.zarr"))
        make(str(tmp_path / "a.zarr"))
    assert (tmp_path / "d" / "p.txt").read_text() == "mine"
    assert (tmp_path / "mixed.zarr" / "notes.txt").read_text() == "mine"
    shutil.copytree(tmp_path / "a.zarr", tmp_path / "odd.h5")
    with fails(FileExistsError, "odd.h5", "is a directory"):
        fl.convert(fl.from_numpy(x), str(tmp_path / "odd.h5"), overwrite=True)
    with fails(FileNotFoundError, "nope"):
        fl.convert(str(tmp_path / "nope"), str(tmp_path / "a.zarr"))


def test_out_keeps_attributes_and_names_of_dimensions(tmp_path, rng):
    x = rng.random((40, 30))
    for name in ("g.zarr/a", "h.zarr"):
        a = fl.create(str(tmp_path / name), (40, 30), "f8", dims=("cells", "genes"))
        a[...] = x
        a.flush()
        about = tmp_path / name / ("zarr.json" if name == "g.zarr/a" else "array/zarr.json")
        told = json.loads(about.read_text()) | {"attributes": {"unit": "counts", "deep": {"n": [1, 2]}}}
        about.write_text(json.dumps(told))
        a = fl.open(str(tmp_path / name), mode="r+")
        fl.compute(a * 2, out=a)
        fl.matmul(np.eye(40), a, out=a)
        np.testing.assert_allclose(a[...], 2 * x)
        told = json.loads(about.read_text())
        assert told["attributes"] == {"unit": "counts", "deep": {"n": [1, 2]}}
        assert told["dimension_names"] == ["cells", "genes"]


@pytest.mark.parametrize("name", ["q.txt", "q.csv.bz2", "q.xlsx", "q.ods"])
def test_convert_refuses_endings_that_it_cannot_write(tmp_path, name):
    np.save(tmp_path / "d.npy", np.ones((3, 2)))
    with pytest.raises(fl.FormatError, match=r"write|written"):
        fl.convert(str(tmp_path / "d.npy"), str(tmp_path / name))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "source", ["csr.npz", "csc.npz", "coo.npz", "a.mtx", "a.npy", "a.zarr", "a.h5ad", "a.parquet"]
)
@pytest.mark.parametrize("target", ["t.zarr", "t.npz", "t.mtx", "t.h5"])
def test_every_conversion_shows_progress(tmp_path, source, target, monkeypatch):
    """The callback hears of bytes that grow, up to what there is, whatever goes where."""
    from flagstone._runtime import streaming

    monkeypatch.setattr(streaming.time, "monotonic", iter(range(1 << 30)).__next__)  # somebody always looks
    m = sp.random(300, 40, 0.2, format="csr", random_state=0, dtype=np.float32)
    path = tmp_path / source
    if source.endswith(".npz"):
        sp.save_npz(path, m.asformat(source[:3]))
    elif source == "a.parquet":
        pytest.importorskip("pyarrow.parquet").write_table(
            pytest.importorskip("pyarrow").table({"x": np.arange(900.0), "y": np.arange(900.0)}), path
        )
    elif source == "a.npy":
        np.save(path, m.toarray())
    else:
        fl.convert(fl.from_blocks([m]), str(path))
    heard = []
    with fl.Runtime() as runtime:
        runtime.progress = lambda now: heard.append(now.bytes_read)
        fl.convert(str(path), str(tmp_path / target))
    assert heard
    assert max(heard) > 0


def test_one_number_goes_into_hdf5_and_back(tmp_path):
    fl.convert(fl.from_numpy(np.float32(2.5)), tmp_path / "x.h5")
    opened = fl.open(tmp_path / "x.h5")
    assert opened.shape == ()
    assert opened.dtype == np.float32
    assert float(opened[()]) == 2.5


@pytest.mark.parametrize("name", ["mtx", "mtx.gz", "npz", "h5", "zarr"])
def test_what_a_refused_conversion_names_is_enough(isolated, name):
    peak, least = isolated(
        """
        from tests.support.processes import random_csr
        source = fl.from_blocks([random_csr(20_000, 900, 0.02, 0)], "source.zarr")
        try:
            fl.convert("source.zarr", "o." + name, memory="1MiB")
        except fl.BudgetError as error:
            least = error.least
        fl.convert("source.zarr", "o." + name, memory=least)
        result = fl.stats().peak_memory, least
        """,
        name=name,
    )
    assert peak <= least


@pytest.mark.parametrize("name", ["c.npy", "c.zarr", "c.mtx"])
def test_what_is_not_stored_is_refused_and_not_computed(tmp_path, name):
    a = fl.from_numpy(np.ones((3, 3)), tmp_path / "a.zarr")
    for src in (a + 1, a.sum(), np.ones((3, 3))):
        with pytest.raises(TypeError, match="a path, an Array or a SparseArray is needed"):
            fl.convert(src, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz"])
def test_dense_text_becomes_a_zarr_array_that_can_be_overwritten(tmp_path, rng, name, symmetry):
    x = rng.random((37, 37)) if symmetry == "general" else np.add.outer(np.arange(37.0), np.arange(37.0))
    scipy.io.mmwrite(tmp_path / "a.mtx", x, symmetry=symmetry)
    if name.endswith("gz"):
        with gzip.open(tmp_path / name, "wb") as packed:
            packed.write((tmp_path / "a.mtx").read_bytes())
    target = tmp_path / "x.zarr"
    fl.convert(tmp_path / name, target)
    assert target.is_dir()
    fl.convert(tmp_path / name, target, overwrite=True)
    np.testing.assert_array_equal(fl.open(target)[...], scipy.io.mmread(tmp_path / "a.mtx"))
    assert fl.check(target).ok
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted({"a.mtx", name, "x.zarr"})
