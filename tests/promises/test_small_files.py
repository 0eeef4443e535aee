"""Buffers follow the size of what comes in: files below 1 MB come in within 48 MiB above the process."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import flagstone as fl
from tests.support.faults import strange_files

MOST = 48 << 20
TINY = (
    "d3.mtx",
    "d3.csv",
    "d3.csv.gz",
    "s3.mtx",
    "s3.mtx.gz",
    "s3.svm",
    "csr3.npz",
    "csc3.npz",
    "coo3.npz",
    "s3.h5ad",
)
SHORT = (
    *("d.mtx", "s.mtx", "s.mtx.gz", "s.svm", "csr.npz", "csc.npz", "coo.npz", "s.h5ad", "csc.h5ad"),
    *("d.h5", "d.npz", "d.parquet", "d.arrow", "d.npy", "d.csv", "d.csv.gz"),
    *("cells.h5", "cells", "s.loom", "classic.nc", "four.nc", "z.zip", "tables"),
)


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    """A file of each format that is imported or opened in place; the longest has a megabyte."""
    folder = tmp_path_factory.mktemp("small")
    tiny, short = sp.csr_matrix(np.eye(3) + 1), sp.random(3000, 300, 0.04, "csr", rng=1, dtype="f4")
    for ending, matrix in (("3", tiny), ("", short)):
        scipy.io.mmwrite(folder / f"s{ending}.mtx", matrix)
        (folder / f"s{ending}.mtx.gz").write_bytes(gzip.compress((folder / f"s{ending}.mtx").read_bytes()))
        sp.save_npz(folder / f"csr{ending}.npz", matrix)
        sp.save_npz(folder / f"csc{ending}.npz", matrix.tocsc())
        sp.save_npz(folder / f"coo{ending}.npz", matrix.tocoo())
        fl.from_blocks([matrix], folder / f"s{ending}.zarr")
        for kind in ("svm", "h5ad"):
            fl.convert(folder / f"s{ending}.zarr", folder / f"s{ending}.{kind}")
    scipy.io.mmwrite(folder / "d3.mtx", tiny.toarray())
    np.save(folder / "d.npy", np.ones((300, 300)))
    fl.convert(folder / "d3.mtx", folder / "d3.csv")
    fl.convert(folder / "d3.mtx", folder / "d3.csv.gz")
    for kind in ("h5", "npz", "parquet", "arrow", "mtx", "csv", "csv.gz"):
        fl.convert(folder / "d.npy", folder / f"d.{kind}")
    columns = short.tocsc()
    import h5py

    with h5py.File(folder / "csc.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs.update(
            {"encoding-type": "csc_matrix", "encoding-version": "0.1.0", "shape": columns.shape}
        )
        group["data"], group["indices"], group["indptr"] = columns.data, columns.indices, columns.indptr
    with h5py.File(folder / "cells.h5", "w") as file:  # of 10x
        for name in ("data", "indices", "indptr"):
            file[f"matrix/{name}"] = getattr(short, name)
        file["matrix/shape"] = short.shape[::-1]
        file["matrix/barcodes"] = [b"cell"] * short.shape[0]
    with h5py.File(folder / "s.loom", "w") as file:
        file["matrix"], file["row_attrs/Gene"] = np.ones((300, 300), "f4"), [b"gene"] * 300
        file["col_attrs/CellID"] = [b"cell"] * 300
    with h5py.File(folder / "four.nc", "w") as file:
        file["t"] = np.ones((300, 300))
    strange_files.tenx_folder(str(folder / "cells"))
    strange_files.netcdf(str(folder / "classic.nc"))
    strange_files.zarr_zip(str(folder / "z.zip"))
    strange_files.parquet_folder(str(folder / "tables"))
    for name in (*TINY, *SHORT):
        assert (folder / name).stat().st_size < 1_000_000, name
    return folder


def test_the_least_limit_follows_the_file(small_files, isolated):
    told = isolated(
        """
        import scipy.sparse as sp
        from tests.support.processes import peak_memory, reset_peak
        os.chdir(folder)
        block = sp.load_npz("csr.npz")

        def call(name):
            if name.startswith("blocks"):
                blocks = [block if name == "blocks csr" else block.toarray()]
                return lambda: fl.from_blocks(iter(blocks), "blocks.zarr", overwrite=True)
            return lambda: fl.convert(name, "out.zarr", overwrite=True, **keys.get(name, {}))

        result = {}
        for name in (*names, "blocks csr", "blocks dense"):
            work = call(name)
            work()  # once: code is there
            limit, result[name] = 1 << 20, []
            while True:
                fl._core.release_pages()
                fl._core.trim()
                entry = fl._core.resident_bytes()
                reset_peak()
                try:
                    with fl.Runtime(memory=limit, workers=2):
                        work()
                except fl.BudgetError as error:
                    assert error.least > limit, name
                    limit = error.least
                    continue
                result[name] = [limit - entry, peak_memory() - max(limit, entry + (4 << 20))]
                break
        """,
        folder=str(small_files),
        names=[*TINY, *SHORT],
        keys={"classic.nc": {"key": "a"}},
    )
    large = {name: least >> 20 for name, (least, _) in told.items() if least > MOST}
    over = {name: over / 2**20 for name, (_, over) in told.items() if over > 0}
    assert not large, f"MiB above the process: {large}"
    assert not over, f"MiB over the least limit: {over}"


def test_svmlight_names_one_limit_although_its_columns_are_unknown(tmp_path, isolated):
    """4 MB of text: the first pass holds less than the writer of the second, asked for before both."""
    matrix = sp.random(15_000, 900, 0.03, "csr", rng=1, dtype="f4")
    fl.convert(fl.from_blocks([matrix], tmp_path / "s.zarr"), tmp_path / "s.svm")
    told = isolated(
        """
        result, limit = [], 40 << 20
        while len(result) < 4:
            try:
                fl.convert(path, "out.zarr", memory=limit)
                result.append(list(fl.open("out.zarr").shape))
                break
            except fl.BudgetError as error:
                limit = error.least
                result.append(limit)
        """,
        path=str(tmp_path / "s.svm"),
    )
    assert len(told) == 2, told
    assert told[1] == [15_000, 900]
