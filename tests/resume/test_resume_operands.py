"""What a killed call read is opened again as it was, whatever kind of operand it is."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import flagstone as fl
from flagstone._resume import identity
from flagstone._resume.registers import OPENERS
from tests.support.killed_calls import left_at
from tests.support.processes import random_csr

_OPENED = {
    "path": 'fl.open("a.zarr")',
    "verified": 'fl.open("a.zarr", verify=True)',
    "flat": 'fl.open_raw("a.bin", "f4", (1500, 1200))',
    "npz": 'fl.open("a.npz", key="a")',
    "hdf5": 'fl.open("a.h5", key="a")',
    "netcdf3": 'fl.open("a.nc", key="a")',
    "zarr_zip": 'fl.open("a.zip")',
    "csr": 'fl.open("s.zarr").T',
    "flat csr": 'fl.open_raw_csr("values", "indices", "pointers", (3000, 1500), dtype="f8")',
    "csc": 'fl.open("s.zarr")',
    "expression": 'fl.open("a.zarr") * 2 + np.arange(1200, dtype="f4")',
    "mapped": 'fl.concat([fl.flip(fl.open("a.zarr"), 0)[:0], fl.flip(fl.open("a.zarr"), 0)])',
    "structured": 'fl.symmetric(fl.open("square.zarr"))',
    "generated": 'fl.full((1500, 1200), 0.5, "f4")',
    "function": 'fl.from_function(lambda i, j: (3 * i + j) % 17, (1500, 1200), "f4", key="wave")',
    "kernel_matrix": 'fl.kernel_matrix(np.linspace(0, 1, 4500).reshape(1500, 3), kernel="matern32")',
}

_DENSE = 'fl.matmul(A, A.T, out="c.zarr", memory="160MiB")'
_SPARSE = 'fl.convert(A, "c.zarr", memory="700MiB")'  # the products of a sparse matrix are in memory


def _write_sparse(place: Path, kind: str) -> None:
    matrix = random_csr(3000, 1500, 0.25, 3)
    fl.from_blocks([matrix], place)
    if kind == "csc":  # stored by columns, as others write them: the transpose of that
        about = json.loads((place / "zarr.json").read_text())
        about["attributes"] = {"encoding-type": "csc_matrix", "shape": [1500, 3000]}
        (place / "zarr.json").write_text(json.dumps(about))


# Whoever registers one says here what it opens; a space opened again: projections in test_resume_spectra;
# a model of labels: predictions in test_resume_models.
@pytest.mark.parametrize("kind", sorted(OPENERS.keys() - {"nuclear space", "label_model"}))
def test_operands_are_opened_again_as_they_were(process, tmp_path, rng, kind):
    values = rng.random((1500, 1200), np.float32)
    if kind in ("csr", "csc"):
        _write_sparse(tmp_path / "s.zarr", kind)
    if kind == "flat csr":
        matrix = random_csr(3000, 1500, 0.25, 3)
        for name, part in {
            "values": matrix.data,
            "indices": matrix.indices,
            "pointers": matrix.indptr,
        }.items():
            part.astype("f8" if name == "values" else "i8").tofile(tmp_path / name)
    fl.from_numpy(values, tmp_path / "a.zarr")
    values.tofile(tmp_path / "a.bin")
    np.savez(tmp_path / "a.npz", a=values)
    if kind == "structured":
        fl.from_numpy(values[:1200], tmp_path / "square.zarr")
    if kind == "netcdf3":
        with scipy.io.netcdf_file(tmp_path / "a.nc", "w") as file:
            file.createDimension("x", 1500), file.createDimension("y", 1200)
            file.createVariable("a", "f4", ("x", "y"))[:] = values
    if kind == "zarr_zip":
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as archive:
            for file in (tmp_path / "a.zarr").rglob("*"):
                archive.write(file, file.relative_to(tmp_path / "a.zarr"))
    if kind == "hdf5":
        with pytest.importorskip("h5py").File(tmp_path / "a.h5", "w") as file:
            file["a"] = values
    call = f"A = {_OPENED[kind]}\n{_SPARSE if kind in ('csr', 'csc', 'flat csr') else _DENSE}\n"
    whole = process(call + 'result = digest("c.zarr")')
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=1)
    (left,) = left_at(tmp_path / "c.zarr")
    assert left.resumable
    told = json.loads(left.record)["arguments"]["a"]
    named = told.get("lazy", told.get("opener", [None]))[0]
    assert named == (None if kind in ("path", "csr") else kind)  # what needs no more than its path
    again = call if kind == "function" else 'fl.resume("c.zarr")\n'  # what a function is, no record knows
    what, again = process(again + 'result = told()["what"], digest("c.zarr")')
    assert "resumed at" in what
    assert again == whole


def test_an_unknown_opener_is_named(process, tmp_path, rng):
    rng.random((1500, 1200), np.float32).tofile(tmp_path / "a.bin")
    process(f"A = {_OPENED['flat']}\n{_DENSE}", kill=1)
    (left,) = left_at(tmp_path / "c.zarr")
    record = Path(left.notes) / "record.json"
    record.write_text(record.read_text().replace('["flat", ', '["tape", '))
    wanted = (
        r"A of '.*c\.zarr' is opened by 'tape', which this flagstone does not know; version "
        rf"{re.escape(fl.__version__)} wrote the record: go on with the build that did, or make the call"
    )
    with pytest.raises(fl.Error, match=wanted):
        fl.resume(tmp_path / "c.zarr")


@pytest.mark.parametrize("member", ["x.npy", "x.zarr"])
def test_other_bytes_of_the_same_time_are_another_operand(tmp_path, member):
    place = tmp_path / member
    if member == "x.npy":
        np.save(place, np.arange(8.0))
        file, other = place, True
    else:  # whose checksums tell it
        fl.from_numpy(np.arange(8.0), place)
        file, other = place / "array" / "zarr.json", False
    before, times = identity.stored_stamp(str(place)), file.stat()
    assert identity.stored_stamp(str(place)) == before
    with open(file, "r+b") as opened:
        opened.seek(-3, 2)
        opened.write(b"\n\n\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (identity.stored_stamp(str(place)) != before) == other
