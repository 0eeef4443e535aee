"""Every format, both directions, with the peer whose format it is: they write, we open; we write, they open.

`PEERS` is the table: for each peer how it writes a value and how it reads what we wrote. Where a way is
missing, the reason stands there. Real data sets travel the same ways.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import flagstone as fl


class Peer(NamedTuple):
    name: str
    suffix: str  # of what they write
    needs: tuple[str, ...]
    writes: Callable[[Path, Any], Any] | None
    ours: str  # the suffix that convert is asked for; "": we do not write that
    reads: Callable[[Path], Any] | None
    kinds: str = "biufc"  # dtypes that travel
    forms: tuple[str, ...] = ("dense",)


def _zarr(version: int, **how):
    def write(path, value):
        import zarr

        zarr.create_array(
            str(path), shape=value.shape, dtype=value.dtype, zarr_format=version,
            chunks=tuple(max(1, -(-n // 3)) for n in value.shape), **how,
        )[...] = value  # fmt: skip

    return write


def _read_zarr(path):
    import zarr

    return zarr.open_group(str(path), mode="r")["array"][...]


def _tensorstore(path, value, driver="zarr3"):
    import tensorstore as ts

    store = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
    ts.open(store, create=True, dtype=ts.dtype(value.dtype), shape=value.shape).result()[...] = value


def _read_tensorstore(path):
    import tensorstore as ts

    store = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/array"}}
    return ts.open(store).result().read().result()


def _h5py(**how):
    def write(path, value):
        import h5py

        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=value, **how)

    return write


def _read_h5py(path):
    import h5py

    with h5py.File(path) as file:
        return file["X"][...]


def _anndata(path, value):
    import anndata

    one = anndata.AnnData(value)
    one.write_zarr(str(path)) if path.suffix == ".zarr" else one.write_h5ad(path)


def _read_anndata(path):
    import anndata

    found = anndata.read_h5ad(path)
    assert list(found.obs_names[:2]) == ["0", "1"][: found.n_obs]
    return found.X


def _anndata_zarr(path):
    import anndata
    import zarr

    return anndata.io.sparse_dataset(zarr.open_group(str(path), mode="r")).to_memory()


def _binsparse(path, value):
    import binsparse
    from binsparse.conversions.scipy import from_scipy

    binsparse.save_binsparse(from_scipy(value), path)


def _read_binsparse(path):
    import binsparse
    from binsparse.conversions.scipy import to_scipy

    return to_scipy(binsparse.load_binsparse(path))


def _mtx(path, value):
    field = {"c": "complex", "f": "real"}.get(value.dtype.kind, "integer")
    with gzip.open(path, "wb") if path.suffix == ".gz" else open(path, "wb") as file:
        scipy.io.mmwrite(file, value, field=field, symmetry="general", precision=17)


def _svmlight(path, value):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(value, np.zeros(value.shape[0]), str(path), zero_based=False)


def _read_svmlight(path):
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path))[0]


def _parquet(path, value):
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({f"c{j}": np.ascontiguousarray(value[:, j]) for j in range(value.shape[1])})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, str(path))


def _read_columns(path):
    import pyarrow.feather
    import pyarrow.parquet

    read = pyarrow.parquet.read_table if path.suffix == ".parquet" else pyarrow.feather.read_table
    return np.stack([column.to_numpy() for column in read(path).columns], 1)


def _read_npz(path):
    with np.load(path) as found:
        return found["arr_0"]


SPARSE = ("csr", "csc")
PEERS = [
    Peer("numpy", ".npy", (), np.save, ".npy", np.load),
    Peer("numpy-columns", ".npy", (), lambda p, x: np.save(p, np.asfortranarray(x)), "", None),
    Peer("zarr-python v3", ".zarr", ("zarr",), _zarr(3), ".zarr", _read_zarr),
    Peer("zarr-python v2", ".zarr", ("zarr",), _zarr(2, fill_value=0), "", None),  # v3 is what we write
    Peer("tensorstore", ".zarr", ("tensorstore",), _tensorstore, ".zarr", _read_tensorstore),
    Peer("h5py", ".h5", ("h5py",), _h5py(), ".h5", _read_h5py),
    Peer("h5py chunked", ".h5", ("h5py",), _h5py(chunks=(7, 5), compression="gzip", shuffle=True), "", None),
    Peer("anndata dense", ".h5ad", ("anndata",), _anndata, ".h5ad", _read_anndata, "f"),
    Peer("anndata zarr dense", ".zarr", ("anndata", "zarr"), _anndata, "", None, "f"),
    Peer("scipy.io array", ".mtx", (), _mtx, ".mtx", scipy.io.mmread, "ifc"),
    Peer("pyarrow parquet", ".parquet", ("pyarrow",), _parquet, ".parquet", _read_columns, "biuf"),
    Peer("pyarrow feather", ".arrow", ("pyarrow",), _parquet, ".arrow", _read_columns, "biuf"),
    Peer("numpy npz", ".npz", (), np.savez, ".npz", _read_npz),
    Peer("numpy npz packed", ".npz", (), np.savez_compressed, "", None),
    Peer("scipy npz", ".npz", (), sp.save_npz, ".npz", sp.load_npz, "iuf", (*SPARSE, "coo")),
    Peer("scipy npz plain", ".npz", (), lambda p, x: sp.save_npz(p, x, False), "", None, "iuf", SPARSE),
    Peer("scipy.io", ".mtx", (), _mtx, ".mtx", scipy.io.mmread, "if", (*SPARSE, "coo")),
    Peer("scipy.io gz", ".mtx.gz", (), _mtx, ".mtx.gz", scipy.io.mmread, "if", SPARSE),
    Peer("anndata", ".h5ad", ("anndata",), _anndata, ".h5ad", _read_anndata, "f", SPARSE),
    Peer("anndata zarr", ".zarr", ("anndata", "zarr"), _anndata, ".zarr", _anndata_zarr, "f", SPARSE),
    Peer("binsparse", ".zarr", ("binsparse", "zarr"), _binsparse, ".zarr", _read_binsparse, "if", SPARSE),
    Peer("binsparse hdf5", ".h5", ("binsparse", "h5py"), _binsparse, "", None, "if", SPARSE),
    Peer("scikit-learn", ".svm", ("sklearn",), _svmlight, ".svm", _read_svmlight, "f", ("csr",)),
]  # fmt: skip

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
#: What a peer itself does not take.
NOT = {
    ("scipy npz", "float16"), ("scipy npz plain", "float16"), ("anndata", "float16"), ("scipy.io", "float16"),
    ("anndata zarr", "float16"), ("scipy.io gz", "float16"), ("scikit-learn", "float16"),
    ("binsparse", "float16"), ("binsparse hdf5", "float16"), ("scipy.io array", "float16"),
    ("pyarrow feather", "float16"),
}  # fmt: skip


def _value(dtype: str, form: str) -> Any:
    random = np.random.default_rng(7)
    kind = np.dtype(dtype).kind
    x = random.integers(0 if kind in "bu" else -90, 90 if kind != "b" else 2, (41, 23)).astype(dtype)
    if kind in "fc":
        x = (x / 8).astype(dtype)  # few digits: scikit-learn writes sixteen
    if kind == "c":
        x = (x - 2j * x[::-1]).astype(dtype)
    if form == "dense":
        return x
    x[random.random(x.shape) < 0.7] = 0
    return sp.csr_matrix(x).asformat(form)


def _dense(value: Any) -> np.ndarray:
    if isinstance(value, fl.SparseArray):
        value = value.to_scipy()
    return value.toarray() if sp.issparse(value) else np.asarray(value[...])


CASES = [
    pytest.param(peer, dtype, form, id=f"{peer.name}-{dtype}-{form}".replace(" ", "_"))
    for peer in PEERS
    for dtype in DTYPES
    if np.dtype(dtype).kind in peer.kinds and (peer.name, dtype) not in NOT
    for form in peer.forms
]


@pytest.mark.parametrize(("peer", "dtype", "form"), CASES)
def test_there_and_back(tmp_path, peer, dtype, form):
    for module in peer.needs:
        pytest.importorskip(module)
    value = _value(dtype, form)
    given = tmp_path / f"theirs{peer.suffix}"
    peer.writes(given, value)
    opened = fl.open(str(given))
    assert opened.shape == value.shape
    np.testing.assert_array_equal(_dense(opened), _dense(value))
    binary = not peer.suffix.startswith((".mtx", ".svm"))  # text widens: float64, int64
    if binary and value.dtype != bool:
        assert opened.dtype == value.dtype
    if not peer.ours:
        return
    written = tmp_path / f"ours{peer.ours}"
    fl.convert(opened, str(written))
    back = peer.reads(written)
    np.testing.assert_array_equal(_dense(back), _dense(value))
    if binary and value.dtype != bool:
        assert back.dtype == value.dtype


REAL = [
    "ecrtm-20NG/test_bow.npz",
    "multilabel/corel5k.train.X.npz",
    "suitesparse/bcsstk13.mtx",
    "ginkgo-ani4/ani4.mtx",
]


@pytest.mark.parametrize("name", REAL)
def test_real_matrices_through_every_peer(tmp_path, shared_data, name):
    """From the file as it is published through each format that we write, to the peer, and back to us."""
    source = shared_data / name
    truth = sp.csr_matrix(sp.load_npz(source) if source.suffix == ".npz" else scipy.io.mmread(source))
    truth.sum_duplicates()
    assert abs(fl.open(str(source)).to_scipy() - truth).nnz == 0
    tried = 0
    for peer in PEERS:
        if not peer.ours or "csr" not in peer.forms or any(not _have(module) for module in peer.needs):
            continue
        if peer.ours == ".svm" and truth[:, -1].nnz == 0:
            continue  # that text has no word for columns behind the last entry
        written = tmp_path / f"ours-{tried}{peer.ours}"
        fl.convert(str(source), str(written))
        theirs = sp.csr_matrix(peer.reads(written))
        assert abs(theirs - truth).nnz == 0, peer.name
        given = tmp_path / f"theirs-{tried}{peer.suffix}"
        peer.writes(given, theirs)
        assert abs(fl.open(str(given)).to_scipy() - truth).nnz == 0, peer.name
        tried += 1
    assert tried >= 3


def test_real_images_through_every_peer(tmp_path, shared_data):
    text = gzip.decompress((shared_data / "mnist-t10k" / "t10k-images-idx3-ubyte.gz").read_bytes())
    images = np.frombuffer(text, np.uint8, offset=16).reshape(-1, 28, 28)
    (tmp_path / "images.raw").write_bytes(text)
    opened = fl.open_raw(str(tmp_path / "images.raw"), "u1", images.shape, offset=16)
    for peer in PEERS:
        if not peer.ours or "u" not in peer.kinds or peer.forms != ("dense",):
            continue
        if any(not _have(module) for module in peer.needs) or peer.ours in (".parquet", ".arrow"):
            continue  # tables have two dimensions
        written = tmp_path / f"ours {peer.name}{peer.ours}"
        fl.convert(opened, str(written))
        np.testing.assert_array_equal(peer.reads(written), images)


def _have(module: str) -> bool:
    try:
        __import__(module)
    except ImportError:
        return False
    return True
