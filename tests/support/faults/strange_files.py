"""Strange files in the place of every file that a format has, given to everything that opens files.

    python -m tests.support.faults.strange_files FOLDER FORMAT [every]

runs the cases of one format and prints a line before each and one after it, for whoever watches the clock.
Everything is looked at: no case may wait, and what fails must say so in a sentence.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import flagstone as fl
from flagstone._formats.registry import FORMATS
from flagstone._maintenance.info import describe
from tests.support.error_sentences import sentence

GIANT = 1 << 42  # bytes; a hole

# What stands where a file should --------------------------------------------------------------------------


def socket_at(place: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    before = os.getcwd()
    os.chdir(place.parent)  # a path of a socket has 107 bytes
    try:
        made.bind(place.name)
    finally:
        os.chdir(before)
        made.close()


def giant_at(place: Path) -> None:
    with open(place, "wb") as file:
        file.truncate(GIANT)


def tail_at(place: Path, contents: bytes) -> None:
    place.write_bytes(contents)
    os.truncate(place, GIANT)


def ring_at(place: Path) -> None:
    other = place.with_name("." + place.name + ".ring")
    other.symlink_to(place)
    place.symlink_to(other)


STRANGE: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "socket": socket_at,
    "endless device": lambda place: place.symlink_to("/dev/zero"),
    "empty device": lambda place: place.symlink_to("/dev/null"),
    "directory": os.mkdir,
    "dangling link": lambda place: place.symlink_to("nowhere"),
    "circular link": ring_at,
    "giant of zeros": giant_at,
    "empty": lambda place: place.write_bytes(b""),
}


def put(kind: str, place: Path, contents: bytes) -> None:
    """Put something strange where a file is."""
    place.unlink()
    if kind == "giant behind it":
        tail_at(place, contents)
    else:
        STRANGE[kind](place)


# Whole stores of every format -----------------------------------------------------------------------------

DENSE = np.arange(42.0).reshape(6, 7)
DATES = np.datetime64("2020-01-01", "s") + np.arange(42).reshape(6, 7)
SPARSE = sp.random(40, 30, 0.1, "csr", random_state=1)


def zarr_2(path: str) -> None:
    import zarr

    group = zarr.open_group(path, mode="w", zarr_format=2)
    made = group.create_array("a", shape=DENSE.shape, dtype="f8", chunks=(3, 7))
    made[...] = DENSE
    made.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]


def compressed(path: str, columns: bool) -> None:
    """AnnData's group of a matrix, as zarr-python writes it."""
    import zarr

    matrix = SPARSE.tocsc() if columns else SPARSE
    about = {"encoding-type": "csc_matrix" if columns else "csr_matrix", "encoding-version": "0.1.0"}
    group = zarr.open_group(path, mode="w", zarr_format=3, attributes={**about, "shape": list(matrix.shape)})
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name))


def zarr_dates(path: str) -> None:
    import zarr

    zarr.create_array(path, data=DATES, chunks=(4, 7), zarr_format=2)


def epochs(path: str) -> None:
    with fl.epochs(path, (6, 7), dtype="f8") as ring:
        ring.next[...] = DENSE
        ring.commit()


def scipy_npz(path: str) -> None:
    with open(path, "wb") as file:
        sp.save_npz(file, SPARSE)


def tenx_h5(path: str) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name in ("data", "indices", "indptr"):
            file[f"matrix/{name}"] = getattr(SPARSE, name)
        file["matrix/shape"] = SPARSE.shape[::-1]
        file["matrix/barcodes"] = [b"cell"] * SPARSE.shape[0]


def netcdf(path: str) -> None:
    import scipy.io

    with scipy.io.netcdf_file(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 7)
        file.createVariable("time", "f8", ("time",))[:6] = range(6)
        file.createVariable("a", "f8", ("time", "x"))[:6] = DENSE


def zarr_zip(path: str) -> None:
    fl.from_numpy(DENSE, path + ".zarr").close()
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(Path(path + ".zarr").rglob("*.json")):
            archive.write(file, file.relative_to(path + ".zarr"))
        for file in sorted(Path(path + ".zarr").rglob("c/*/*")):
            archive.write(file, file.relative_to(path + ".zarr"))
    shutil.rmtree(path + ".zarr")


def tenx_folder(path: str) -> None:
    os.mkdir(path)
    fl.convert(fl.from_blocks([SPARSE.T.tocsr()]), f"{path}/matrix.mtx")
    Path(path, "barcodes.tsv").write_text("cell\n" * SPARSE.shape[0])
    Path(path, "features.tsv").write_text("id\tname\n" * SPARSE.shape[1])


def parquet_folder(path: str) -> None:
    os.makedirs(f"{path}/year=2024")
    for name in ("a.parquet", "year=2024/b.parquet"):
        fl.convert(fl.from_numpy(DENSE), f"{path}/{name}")


STORES: dict[str, Callable[[str], object]] = {
    "Zarr": lambda path: fl.from_numpy(DENSE, path).close(),
    "Zarr v2": zarr_2,
    "CSR group": lambda path: fl.from_blocks([SPARSE], path),
    "CSR group of others": lambda path: compressed(path, False),
    "CSC group": lambda path: compressed(path, True),
    "epochs": epochs,
    "npy": lambda path: np.save(path, DENSE),
    "npy, dates": lambda path: np.save(path, DATES),
    "Zarr v2, dates": zarr_dates,
    "npz": scipy_npz,
    "npz, dense": lambda path: np.savez(path, a=DENSE),
    "HDF5": lambda path: fl.convert(fl.from_numpy(DENSE), path),
    "HDF5, AnnData": lambda path: fl.convert(fl.from_blocks([SPARSE]), path),
    "HDF5, 10x": tenx_h5,
    "NetCDF": netcdf,
    "Zarr in a zip": zarr_zip,
    "10x folder": tenx_folder,
    "Parquet folder": parquet_folder,
    "Parquet": lambda path: fl.convert(fl.from_numpy(DENSE), path),
    "Arrow": lambda path: fl.convert(fl.from_numpy(DENSE), path),
    "CSV": lambda path: fl.convert(fl.from_numpy(DENSE), path),
    "CSV, packed": lambda path: fl.convert(fl.from_numpy(DENSE), path),
    "MatrixMarket": lambda path: fl.convert(fl.from_blocks([SPARSE]), path),
    "MatrixMarket, packed": lambda path: fl.convert(fl.from_blocks([SPARSE]), path),
    "Extreme Classification": lambda path: _labelled(path),
    "SVMlight": lambda path: fl.convert(fl.from_blocks([SPARSE]), path),
    "SVMlight, packed": lambda path: fl.convert(fl.from_blocks([SPARSE]), path),
    "UCI docword": lambda path: _bag_of_words(path),
}
SUFFIXES = {
    "NetCDF": ".nc", "Zarr in a zip": ".zip", "HDF5, 10x": ".h5", "10x folder": "", "Parquet folder": "",
    "npy": ".npy", "npy, dates": ".npy", "npz": ".npz", "npz, dense": ".npz", "HDF5": ".h5",
    "HDF5, AnnData": ".h5ad",
    "Parquet": ".parquet", "Arrow": ".arrow", "MatrixMarket": ".mtx", "MatrixMarket, packed": ".mtx.gz",
    "CSV": ".csv", "CSV, packed": ".csv.gz", "Extreme Classification": ".xc",
    "SVMlight": ".svm", "SVMlight, packed": ".svm.gz", "UCI docword": ".txt",
}  # fmt: skip


def _labelled(path: str) -> None:
    rows = sp.csr_matrix(SPARSE)
    with open(path, "w") as file:
        print(*rows.shape, 3, file=file)
        for i in range(rows.shape[0]):
            row = rows[i]
            print(i % 3, *(f"{c}:{v:g}" for c, v in zip(row.indices, row.data, strict=True)), file=file)


def _bag_of_words(path: str) -> None:
    words = sp.coo_matrix(SPARSE)
    with open(path, "w") as file:
        print(*words.shape, words.nnz, sep="\n", file=file)
        for row, column, count in zip(words.row + 1, words.col + 1, words.data, strict=True):
            print(row, column, round(count) or 1, file=file)


def missing_formats() -> set[str]:
    """Formats that the registry knows and no store here has."""
    return {one.name for one in FORMATS} - {name.partition(",")[0] for name in STORES}


# Everything that opens ------------------------------------------------------------------------------------


def read(path: str, **options: object) -> None:
    opened = fl.open(path, **options)
    if isinstance(opened, fl.SparseArray):
        opened.to_scipy()
        opened.sum(0)
    elif opened.dtype.kind == "M":
        opened.max()
        return
    else:
        np.asarray(opened)
        float(opened.sum())
    assert opened.obs_names is not opened.var_names or opened.obs_names is None  # files of their own


def assign(path: str) -> None:
    opened = fl.open(path, mode="r+")
    opened[...] = 1.0
    opened.close()


def told(path: str) -> None:
    facts = describe(path)
    if "problem" in facts:
        raise fl.Error(str(facts["problem"]))


def leave(path: str, call: Callable[[str], object]) -> None:
    out = path + ".out.zarr"
    try:
        call(out)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def verbs(path: str) -> dict[str, Callable[[], object]]:
    return {
        "open": lambda: read(path),
        "open, verified": lambda: read(path, verify=True),
        "open, decoded": lambda: fl.open(path, decode=True),
        "open_raw": lambda: np.asarray(fl.open_raw(path, "f8", (2, 3))),
        "info": lambda: told(path),
        "check": lambda: fl.check(path),
        "convert": lambda: leave(path, lambda out: fl.convert(path, out)),
        "pack": lambda: leave(path, lambda out: fl.pack(path, out)),
        "repair": lambda: fl.repair(path),
        "assign": lambda: assign(path),
        "replace": lambda: fl.from_numpy(DENSE, path, overwrite=True),
        "delete": lambda: fl.delete(path),
    }


#: What every run of the tests takes; the slow ones take all of it.
QUICK_KINDS = {"fifo", "endless device", "circular link", "giant behind it"}
QUICK_VERBS = {"open", "check", "convert", "assign", "delete"}
CHANGES = ("assign", "replace", "repair", "delete")


def inner_files(store: Path) -> list[Path]:
    if store.is_file():
        return [Path()]
    return sorted(file.relative_to(store) for file in store.rglob("*") if file.is_file())


def cases(folder: Path, name: str, every: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    whole = folder / f"whole{SUFFIXES.get(name, '.zarr')}"
    STORES[name](str(whole))
    place = folder / f"m{SUFFIXES.get(name, '.zarr')}"
    for inner in inner_files(whole):
        contents = (whole / inner).read_bytes()
        for kind in [*STRANGE, "giant behind it"]:
            if kind == "directory" and inner == Path():
                continue  # a Zarr store, perhaps
            if not every and kind not in QUICK_KINDS:
                continue
            fresh = False
            for verb, call in verbs(str(place)).items():
                if not every and verb not in QUICK_VERBS:
                    continue
                if not fresh:
                    remove(place)
                    copy(whole, place)
                    put(kind, place / inner, contents)
                fresh = verb not in CHANGES
                yield f"{name}: {inner or 'the file'} is a {kind}: {verb}", call
    remove(place)


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def remove(place: Path) -> None:
    ring = place.with_name("." + place.name + ".ring")
    for one in (place, ring):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        elif os.path.lexists(one):
            one.unlink()


def outcome(call: Callable[[], object]) -> str:
    """What came of it; an error that is no sentence of ours is called raw."""
    try:
        call()
    except (fl.Error, ValueError, TypeError) as error:
        try:
            return f"{type(error).__name__}: {sentence(error)}"
        except AssertionError:
            return f"raw {type(error).__name__}: {error}"
    except Exception as error:
        return f"raw {type(error).__name__}: {error}"
    return "done"


def main(folder: str, name: str, every: str = "") -> None:
    warnings.simplefilter("ignore")
    fl.Runtime(memory="1GiB", scratch=f"{folder}/scratch").__enter__()
    for what, call in cases(Path(folder), name, bool(every)):
        print(f"> {what}", flush=True)
        began = time.perf_counter()
        result = outcome(call)
        print(f"< {time.perf_counter() - began:.2f} {result}", flush=True)
    print("all", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
