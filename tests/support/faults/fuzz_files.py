"""Valid files of every format, small ones, for fuzz.py to damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np


def _matrix(rows: int = 60, cols: int = 40):
    import scipy.sparse as sp

    m = sp.random(rows, cols, 0.2, format="csr", random_state=np.random.default_rng(0), dtype=np.float32)
    m.data = np.ceil(9 * m.data)
    return m


def _dense(dtype="f4") -> np.ndarray:
    return (np.arange(60 * 40) % 251).reshape(60, 40).astype(dtype)


def npy(folder: Path) -> Path:
    np.save(folder / "victim.npy", np.asfortranarray(_dense(">f8")))
    return folder / "victim.npy"


def _npz(form: str, compressed: bool) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import scipy.sparse as sp

        sp.save_npz(folder / "victim.npz", _matrix().asformat(form), compressed=compressed)
        return folder / "victim.npz"

    return make


def zarr_ours(folder: Path) -> Path:
    import flagstone as fl

    a = fl.create(str(folder / "victim.zarr"), (60, 40), "f4", chunks=(16, 16))
    a[...] = _dense()
    a.flush()
    return folder / "victim.zarr"


def zarr_v3(folder: Path) -> Path:
    import zarr
    from zarr import codecs

    zarr.create_array(
        str(folder / "victim"), shape=(60, 40), dtype=">i4", chunks=(8, 10), shards=(32, 20),
        filters=[codecs.TransposeCodec(order=(1, 0))], compressors=[codecs.BloscCodec(), codecs.GzipCodec()],
        fill_value=7,
    )[...] = _dense("i4")  # fmt: skip
    return folder / "victim"


def zarr_zstd(folder: Path) -> Path:
    import zarr
    from zarr import codecs

    zarr.create_array(
        str(folder / "victim"), shape=(60, 40), dtype="f8", chunks=(30, 40),
        compressors=[codecs.ZstdCodec(), codecs.Crc32cCodec()],
    )[...] = _dense("f8")  # fmt: skip
    return folder / "victim"


def zarr_nested(folder: Path) -> Path:
    import zarr
    from zarr import codecs

    inner = codecs.ShardingCodec(chunk_shape=(8, 8), codecs=[codecs.BytesCodec(), codecs.Crc32cCodec()])
    turned = [codecs.TransposeCodec(order=(1, 0)), inner]
    zarr.create_array(
        str(folder / "victim"), shape=(60, 40), dtype="i2", chunks=(32, 32), filters=None, compressors=None,
        serializer=codecs.ShardingCodec(chunk_shape=(16, 16), codecs=turned, index_location="start"),
    )[...] = _dense("i2")  # fmt: skip
    return folder / "victim"


def zarr_bz2(folder: Path) -> Path:
    import numcodecs
    import zarr

    zarr.create_array(
        str(folder / "victim"), shape=(60, 40), dtype="f8", chunks=(30, 40), zarr_format=2,
        compressors=numcodecs.BZ2(9),
    )[...] = _dense("f8")  # fmt: skip
    return folder / "victim"


def zarr_v2(folder: Path) -> Path:
    import numcodecs
    import zarr

    zarr.create_array(
        str(folder / "victim"), shape=(60, 40), dtype=">f4", chunks=(16, 16), zarr_format=2, order="F",
        filters=[numcodecs.Shuffle(4)], compressors=numcodecs.Blosc("lz4", shuffle=2), fill_value=1,
    )[...] = _dense()  # fmt: skip
    return folder / "victim"


def csr(folder: Path) -> Path:
    import flagstone as fl

    fl.from_blocks([_matrix()], str(folder / "victim.zarr"))
    return folder / "victim.zarr"


def csr_anndata(folder: Path) -> Path:
    import anndata
    import zarr

    anndata.io.write_elem(zarr.open_group(str(folder / "victim.zarr"), mode="w"), "X", _matrix().tocsc())
    return folder / "victim.zarr"


def mtx(folder: Path) -> Path:
    import scipy.io

    scipy.io.mmwrite(folder / "victim.mtx", _matrix(), symmetry="general")
    return folder / "victim.mtx"


def mtx_gz(folder: Path) -> Path:
    text = mtx(folder).read_bytes()
    (folder / "victim.mtx").unlink()
    (folder / "victim.mtx.gz").write_bytes(gzip.compress(text, mtime=0))
    return folder / "victim.mtx.gz"


def svmlight(folder: Path) -> Path:
    m = _matrix()
    rows = (range(m.indptr[i], m.indptr[i + 1]) for i in range(m.shape[0]))
    lines = [" ".join(["1", *(f"{m.indices[k] + 1}:{m.data[k]}" for k in row)]) for row in rows]
    (folder / "victim.svm").write_text("\n".join(lines) + "\n")
    return folder / "victim.svm"


def hdf5(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "victim.h5", "w", libver="latest") as file:
        made = file.create_dataset(
            "x", data=_dense(), chunks=(16, 16), compression="gzip", shuffle=True, fletcher32=True
        )
        made.attrs["note"] = "chunked"
    return folder / "victim.h5"


def hdf5_imported(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "victim.h5", "w") as file:
        file.create_dataset("x", data=_dense("i4"), chunks=(16, 16), scaleoffset=0, compression="gzip")
    return folder / "victim.h5"


def hdf5_flat(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "victim.h5", "w") as file:
        file["x"] = _dense(">i2")
    return folder / "victim.h5"


def h5ad(folder: Path) -> Path:
    import h5py

    m = _matrix()
    with h5py.File(folder / "victim.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": m.shape})
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(m, name), chunks=(50,), compression="lzf")
    return folder / "victim.h5ad"


def h5ad_journal(folder: Path) -> Path:
    """A committed journal of pages beside the file, as `write_obsm` leaves it when it dies."""
    from flagstone._formats.hdf5 import page_journal as journal

    path = hdf5_flat(folder)
    apply, journal._apply = journal._apply, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    try:
        with journal.Journal(str(path)) as file:
            file.seek(0, 2)
            file.write(b"more" * 2000)
            file.commit()
    except KeyboardInterrupt:
        pass
    finally:
        journal._apply = apply
    return path


def _columns(suffix: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet

        table = pa.table({f"c{i}": _dense()[:, i] for i in range(5)})
        path = folder / f"victim.{suffix}"
        if suffix == "parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            pyarrow.feather.write_feather(table, str(path), compression="lz4")
        return path

    return make


FORMATS: dict[str, Callable[[Path], Path]] = {
    "npy": npy, "npz": _npz("csr", False), "npz-packed": _npz("csr", True), "npz-csc": _npz("csc", False),
    "npz-coo": _npz("coo", False), "zarr": zarr_ours, "zarr-v3": zarr_v3, "zarr-zstd": zarr_zstd,
    "zarr-v2": zarr_v2, "zarr-nested": zarr_nested, "zarr-bz2": zarr_bz2,
    "csr": csr, "csc-anndata": csr_anndata, "mtx": mtx, "mtx-gz": mtx_gz,
    "svmlight": svmlight, "hdf5": hdf5, "hdf5-imported": hdf5_imported,
    "hdf5-flat": hdf5_flat, "h5ad": h5ad, "journal": h5ad_journal,
    "parquet": _columns("parquet"), "arrow": _columns("arrow"),
}  # fmt: skip
