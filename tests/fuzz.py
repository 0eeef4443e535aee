"""Damages valid files of every format at random and opens what is left: an answer or one of our errors.

    python tests/fuzz.py [--count 1000] [--seed 0] [--only npz]

Each case is a number: format, seed and number give the same bytes again. What is looked for: a crash (the
process ends), any exception that is not one of ours, one that does not name the file, a message of several
lines, more memory than the limit allows (the address space is capped) and more seconds than damage deserves.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

LIMIT = 384 << 20  # memory= of everything that is opened
ROOM = 1200 << 20  # address space beyond what the process has at the start: stacks, the ring, the limit
SLOW = 20.0  # seconds
HOPELESS = 60  # seconds, then it counts as hanging

Random = np.random.Generator


# Valid files ------------------------------------------------------------------------------------------------


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
    from flagstone import journal

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
    "zarr-v2": zarr_v2, "csr": csr, "csc-anndata": csr_anndata, "mtx": mtx, "mtx-gz": mtx_gz,
    "svmlight": svmlight, "hdf5": hdf5, "hdf5-flat": hdf5_flat, "h5ad": h5ad, "journal": h5ad_journal,
    "parquet": _columns("parquet"), "arrow": _columns("arrow"),
}  # fmt: skip


# Damage -----------------------------------------------------------------------------------------------------

#: What parsers stumble over, in place of a number of a text.
_WORDS = (
    b"0", b"-1", b"1", b"1e400", b"-0.0", b"nan", b"NaN", b'"NaN"', b"null", b"[]", b"{}", b"true", b'""',
    b"1.5",
    b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809",
    b"18446744073709551615", b"99999999999999999999999", b'"blosc"', b"[[[[[[[[", b"\xff\xfe", b"()", b"'O'",
)  # fmt: skip
_NUMBERS = (
    0,
    1,
    2,
    0x7FFF,
    *((1 << n) - m for n in (8, 16, 31, 32, 63, 64) for m in (0, 1)),
    1 << 40,
    1 << 60,
)


def _bytes_at_random(text: bytearray, random: Random) -> None:
    for at in random.integers(0, len(text), random.integers(1, 6)):
        text[at] = random.integers(0, 256)


def _one_bit(text: bytearray, random: Random) -> None:
    text[random.integers(0, len(text))] ^= 1 << int(random.integers(0, 8))


def _a_word(text: bytearray, random: Random) -> None:
    """Another word in place of a number or a string, in what looks like text."""
    found = list(re.finditer(rb'-?\d[\d.e+-]*|"[^"]{0,40}"|\[[^\[\]]{0,40}\]', bytes(text)))
    if found:
        one = found[int(random.integers(0, len(found)))]
        text[one.start() : one.end()] = _WORDS[int(random.integers(0, len(_WORDS)))]


def _a_number(text: bytearray, random: Random) -> None:
    """An extreme binary number somewhere, of four or eight bytes."""
    width = int(random.choice([2, 4, 8]))
    at = int(random.integers(0, max(1, len(text) - width)))
    value = _NUMBERS[int(random.integers(0, len(_NUMBERS)))] & ((1 << 8 * width) - 1)
    text[at : at + width] = value.to_bytes(width, "little")


def _cut(text: bytearray, random: Random) -> None:
    del text[int(random.integers(0, len(text))) :]


def _removed(text: bytearray, random: Random) -> None:
    at = int(random.integers(0, len(text)))
    del text[at : at + int(random.integers(1, 40))]


def _doubled(text: bytearray, random: Random) -> None:
    at, length = int(random.integers(0, len(text))), int(random.integers(1, 200))
    text[at:at] = text[at : at + length]


def _zeroed(text: bytearray, random: Random) -> None:
    at, length = int(random.integers(0, len(text))), int(random.integers(1, 5000))
    text[at : at + length] = bytes(len(text[at : at + length]))


_WAYS = (
    _bytes_at_random,
    _one_bit,
    _a_word,
    _a_word,
    _a_number,
    _a_number,
    _cut,
    _removed,
    _doubled,
    _zeroed,
)


def damage(path: Path, random: Random) -> str:
    """Change one file of what lies at `path` (or remove it); small files, which hold metadata, as often."""
    files = sorted(p for p in path.parent.rglob("*") if p.is_file() and not p.is_symlink())
    file = files[int(random.integers(0, len(files)))]
    if len(files) > 1 and random.random() < 0.03:
        file.unlink()
        return f"{file.name} removed"
    text, said = bytearray(file.read_bytes()), []
    for _ in range(int(random.integers(1, 4))):
        way = _WAYS[int(random.integers(0, len(_WAYS)))]
        if text:
            way(text, random)
            said.append(way.__name__.strip("_"))
    file.write_bytes(text)
    return f"{file.relative_to(path.parent)}: {', '.join(said)}"


# Looking ----------------------------------------------------------------------------------------------------


def _use(path: Path) -> None:
    """Open, read everything, add something up, and ask what `info` says of it."""
    import flagstone as fl
    from flagstone.about import describe

    error: Exception | None = None
    try:
        opened = fl.open(str(path))
        if isinstance(opened, fl.SparseArray):
            opened.to_scipy().check_format(full_check=True)  # SciPy itself looks only when it is asked
            opened @ np.ones((opened.shape[1], 2)) if opened.shape[1] < 1 << 20 else None
        else:
            opened[...]
            fl.compute(opened.sum())
    except Exception as caught:
        error = caught
    told = describe(str(path), None, True)
    if error is not None:
        raise error
    del told


def complaint(error: Exception, path: Path) -> str | None:
    """Say what is wrong with an error; None: it is as it should be."""
    import flagstone as fl

    text = str(error)
    if not isinstance(error, fl.Error):
        return "not one of ours"
    if "\n" in text:
        return "several lines"
    if not isinstance(error, fl.BudgetError) and path.stem not in text:
        return "does not name the file"
    return None


def one(name: str, seed: int, number: int, good: Path, folder: Path) -> str | None:
    """Run one case; a text: what is wrong."""
    import flagstone as fl

    random = np.random.default_rng([seed, number, *name.encode()])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder, symlinks=True)
    path = folder / next(p.name for p in good.iterdir() if not p.name.startswith("."))
    what = damage(path, random)
    start, limit = time.monotonic(), LIMIT + fl._core.resident_bytes()
    fl._core.reset_peak_resident()
    try:
        with fl.Runtime(memory=limit, scratch=str(folder.parent / "scratch")):
            _use(path)
    except Exception as error:
        said = complaint(error, path)
        if said:
            where = "".join(traceback.format_exception(error)[-3:])
            return f"{what}: {said}: {type(error).__name__}: {error}\n{where}"
    finally:
        shutil.rmtree(folder.parent / "scratch", ignore_errors=True)
    if fl._core.peak_resident_bytes() > limit:
        return f"{what}: took {fl._core.peak_resident_bytes() >> 20} MiB, and {limit >> 20} were allowed"
    seconds = time.monotonic() - start
    return f"{what}: took {seconds:.0f} s" if seconds > SLOW else None


def run(name: str, seed: int, first: int, end: int, work: Path) -> int:
    """Run cases in this process, noting each number before it begins; returns how many were wrong."""
    good, folder = work / "good", work / "case"
    shutil.rmtree(good, ignore_errors=True)
    good.mkdir()
    FORMATS[name](good)
    wrong = 0
    for number in range(first, end):
        (work / "at").write_text(f"{number} {wrong}")
        signal.alarm(HOPELESS)
        found = one(name, seed, number, good, folder)
        if number == first:  # what is loaded at the first use is not damage's doing
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            held = pages * resource.getpagesize()
            if not os.environ.get("FLAGSTONE_FUZZ_NO_CAP"):  # sanitizers map terabytes
                resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
        if found:
            wrong += 1
            print(f"{name} --seed {seed} --first {number} --count 1: {found}", flush=True)
    (work / "at").write_text(f"{end} {wrong}")
    return wrong


def watched(name: str, seed: int, first: int, count: int, work: Path) -> int:
    """Run cases in children: one that crashes or hangs counts as wrong, and the next goes on behind it."""
    at, wrong = first, 0
    while at < first + count:
        child = os.fork()
        if child == 0:
            os._exit(1 if run(name, seed, at, first + count, work) else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        at, found = map(int, (work / "at").read_text().split())
        wrong += found
        if code < 0 or at < first + count:
            wrong += 1
            ended = "hangs" if code == -signal.SIGALRM else f"ended with {code}"
            print(f"{name} --seed {seed} --first {at} --count 1: {ended}", flush=True)
            at += 1
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats, with commas")
    args = parser.parse_args()
    total = 0
    for name in args.only.split(",") if args.only else FORMATS:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="flagstone-fuzz-") as work:
            wrong = watched(name, args.seed, args.first, args.count, Path(work))
        total += wrong
        print(f"{name}: {args.count} cases, {wrong} wrong ({time.monotonic() - start:.1f} s)", flush=True)
    return min(total, 100)


if __name__ == "__main__":
    sys.exit(main())
