"""Killed conversions of Parquet, Arrow and 10x go on where they stopped."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import flagstone as fl
from tests.support.killed_calls import left_at

pa = pytest.importorskip("pyarrow")

_CONVERT = """
fl.convert(src, "out.zarr", memory=memory)
result = told() | {"digest": digest("out.zarr"), "saves": len(saves)}
"""
_AGAIN = 'fl.resume("out.zarr")\nresult = told() | {"digest": digest("out.zarr")}'


def _table(rng, rows: int, gaps: bool = False):
    values = {name: rng.integers(-(10**6), 10**6, rows) for name in "ab"} | {"c": rng.standard_normal(rows)}
    masks = {name: (np.arange(rows) % 7 == 0 if gaps and name == "b" else None) for name in values}
    kept = np.column_stack([*values.values()]).astype(float)
    if gaps:
        kept[::7, 1] = np.nan
    arrays = {name: pa.array(column, mask=masks[name]) for name, column in values.items()}
    return pa.table(arrays), kept


def _written(kind: str, folder, rng):
    """What is converted, and its values. Row groups end anywhere in a chunk."""
    import pyarrow.parquet as pq

    table, values = _table(rng, 400_000, gaps=kind == "parquet")
    if kind == "arrow":
        with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, 70_001)
        return "t.arrow", values
    if kind == "parquet":
        pq.write_table(table, folder / "t.parquet", row_group_size=90_001)
        return "t.parquet", values
    if kind == "several":
        other, more = _table(rng, 150_000)
        pq.write_table(table, folder / "a.parquet", row_group_size=90_001)
        pq.write_table(other, folder / "b.parquet")
        return ["b.parquet", "a.parquet"], np.vstack([more, values])
    for year, first in ((2023, 0), (2024, 170_003)):
        (folder / f"tables/year={year}").mkdir(parents=True)
        part = table.slice(first, 170_003) if year == 2023 else table.slice(first)
        pq.write_table(part, folder / f"tables/year={year}/p.parquet", row_group_size=90_001)
    years = np.where(np.arange(len(values)) < 170_003, 2023, 2024)
    return "tables", np.column_stack([values, years])


@pytest.mark.parametrize(
    "kind", ["parquet", "arrow", "folder", pytest.param("several", marks=pytest.mark.slow)]
)
def test_tables(process, tmp_path, rng, kind):
    src, values = _written(kind, tmp_path, rng)
    whole = process(_CONVERT, memory="300MiB", src=src)
    assert whole["saves"] > 2
    fl.delete(tmp_path / "out.zarr")
    process(_CONVERT, kill=whole["saves"] - 1, memory="300MiB", src=src)
    (left,) = left_at(tmp_path / "out.zarr")
    assert left.operation == "convert"
    assert 0.4 < left.done < 1
    # The same call goes on too.
    again = process(_CONVERT, memory="400MiB", src=src) if kind == "arrow" else process(_AGAIN)
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    np.testing.assert_array_equal(fl.open(tmp_path / "out.zarr")[...], values)


def test_a_folder_that_gained_a_file_is_told(process, tmp_path, rng):
    src, _ = _written("folder", tmp_path, rng)
    process(_CONVERT, kill=1, memory="300MiB", src=src)
    (tmp_path / "tables/year=2025").mkdir()
    (tmp_path / "tables/year=2024/p.parquet").rename(tmp_path / "tables/year=2025/p.parquet")
    with pytest.raises(fl.Error, match=r"p\.parquet' went away since"):
        fl.resume(tmp_path / "out.zarr")


def test_a_folder_of_10x(process, tmp_path, rng):
    genes, cells = 300, 20_000
    matrix = sp.random(genes, cells, 0.05, "coo", rng=rng)
    matrix.data = rng.integers(1, 99, matrix.nnz)
    (tmp_path / "cells").mkdir()
    scipy.io.mmwrite(tmp_path / "m.mtx", matrix, field="integer")
    text = (tmp_path / "m.mtx").read_bytes()
    (tmp_path / "cells/matrix.mtx.gz").write_bytes(gzip.compress(text, 1))
    for name, count in (("barcodes.tsv", cells), ("features.tsv", genes)):
        (tmp_path / "cells" / name).write_text("".join(f"n{i}\tn{i}\n" for i in range(count)))
    whole = process(_CONVERT, memory="400MiB", src="cells")
    fl.delete(tmp_path / "out.zarr")
    process(_CONVERT, kill=whole["saves"] - 1, memory="400MiB", src="cells")
    again = process(_AGAIN)
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    found = fl.open(tmp_path / "out.zarr")
    assert found.shape == (cells, genes)
    assert (found.to_scipy() != matrix.T.tocsr()).nnz == 0
