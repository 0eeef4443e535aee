"""Killed products go on where they stopped, with the same bits; what changed meanwhile is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import flagstone as fl
from flagstone._resume import identity
from flagstone._resume.registers import OPENERS
from tests.support.error_sentences import fails
from tests.support.killed_calls import cpp_example, left_at
from tests.support.processes import random_csr

# The product ------------------------------------------------------------------------------------------------


_PRODUCT = """
options = dict(memory=memory) if memory else {}
with fl.Runtime(workers=workers):
    C = fl.matmul(fl.open("a.zarr"), fl.open("b.zarr").T, out="c.zarr", **options)
result = told() | {"digest": digest("c.zarr")}
"""


@pytest.fixture
def factors(tmp_path, rng):
    """Operands of a product of several superblocks under 160 MiB."""
    fl.from_numpy(rng.standard_normal((4096, 512)), tmp_path / "a.zarr")
    fl.from_numpy(rng.standard_normal((4096, 512)), tmp_path / "b.zarr")
    return tmp_path


def test_product_killed_at_several_checkpoints(process, factors):
    whole = process(_PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    for kill in (1, 3):
        process(_PRODUCT, kill=kill, memory="160MiB", workers=1)
        assert not (factors / "c.zarr").exists()
        (left,) = left_at(factors / "c.zarr")
        assert left.resumable
        assert not left.live
        assert left.saves == kill
        assert 0 < left.done < 1
        again = process(_PRODUCT, memory="160MiB", workers=1)
        assert again["digest"] == whole["digest"]
        assert again["flops"] == pytest.approx((1 - left.done) * whole["flops"])
        assert again["what"].endswith(f"resumed at {left.done:.0%}")
        assert not left_at(factors / "c.zarr")
        assert fl.check(factors / "c.zarr").ok
        (factors / "c.zarr").rename(factors / f"again{kill}.zarr")


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


@pytest.mark.parametrize("kind", sorted(OPENERS))  # whoever registers one says here what it opens
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


def test_product_twice_killed_with_other_limits_and_workers(process, factors):
    whole = process(_PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    process(_PRODUCT, kill=1, memory="160MiB", workers=1)
    first = left_at(factors / "c.zarr")[0].done
    process(_PRODUCT, kill=1, memory="190MiB", workers=2)
    second = left_at(factors / "c.zarr")[0].done
    assert 0 < first < second
    code = "with fl.Runtime(workers=2): fl.resume('c.zarr', memory='400MiB')\n"
    again = process(code + 'result = told() | {"digest": digest("c.zarr")}')
    assert again["digest"] == whole["digest"]
    assert 0 < again["flops"] < whole["flops"]
    report = fl.check(factors / "c.zarr")
    assert report.ok
    assert report.verified == report.chunks


def test_ctrl_c_keeps_what_is_done(process, factors):
    code = """
    import signal
    def saved(n):
        if n == 2:
            signal.raise_signal(signal.SIGINT)
    record.saved = saved
    try:
        fl.matmul(fl.open("a.zarr"), fl.open("b.zarr").T, out="c.zarr", memory="160MiB")
    except KeyboardInterrupt as error:
        result = getattr(error, "__notes__", ["is kept"])
    """
    assert "is kept" in process("import textwrap\nexec(textwrap.dedent('''" + code + "'''))")[0]
    (left,) = left_at(factors / "c.zarr")
    assert left.resumable
    assert not left.live
    process("fl.resume('c.zarr')")
    expected = np.asarray(fl.open(factors / "a.zarr")) @ np.asarray(fl.open(factors / "b.zarr")).T
    assert np.allclose(np.asarray(fl.open(factors / "c.zarr")), expected)


def test_what_is_changed_is_refused(process, factors):
    process(_PRODUCT, kill=2, memory="160MiB", workers=1)
    with pytest.raises(fl.StorageError, match="has nothing to resume"):
        fl.resume(factors / "other.zarr")
    with fl.open(factors / "b.zarr", mode="r+") as b:
        b[7, 7] = 42.0
    with pytest.raises(fl.FormatError, match=r"B '.*b\.zarr/array' was changed since"):
        fl.resume(factors / "c.zarr")
    with pytest.warns(fl.LeftoverWarning, match="is thrown away"):  # the same call is another one now
        fl.matmul(fl.open(factors / "a.zarr"), fl.open(factors / "b.zarr").T, out=factors / "c.zarr")
    assert not left_at(factors / "c.zarr")
    assert fl.open(factors / "c.zarr")[0, 7] == pytest.approx(
        fl.open(factors / "a.zarr")[0] @ fl.open(factors / "b.zarr")[7]
    )


def test_damaged_records_are_refused_and_begun_again(process, factors):
    process(_PRODUCT, kill=2, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    state = os.path.join(left.notes, "state")
    whole = Path(state).read_bytes()
    for damaged in (whole[:-1], whole[:20], bytes([whole[0] ^ 1]) + whole[1:], whole[:-2] + b"\7\7"):
        Path(state).write_bytes(damaged)
        with pytest.raises(fl.FormatError, match="is damaged"):
            fl.resume(factors / "c.zarr")
    code = "warnings.simplefilter('error', fl.LeftoverWarning)\n" + _PRODUCT
    with pytest.raises(AssertionError, match="begun again"):
        process(code, memory="160MiB", workers=1)
    again = process(_PRODUCT, memory="160MiB", workers=1)
    assert "resumed" not in again["what"]
    assert fl.check(factors / "c.zarr").ok


def test_an_unreadable_record_is_named_as_such(process, factors):
    process(_PRODUCT, kill=1, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    (Path(left.notes) / "record.json").write_text("{}")
    with pytest.warns(fl.LeftoverWarning, match="an operation, whose record is damaged, that was"):
        fl.matmul(fl.from_numpy(np.ones((2, 2))), np.ones((2, 2)), out=factors / "c.zarr")


def test_a_damaged_operand_keeps_what_is_done(process, factors):
    whole = process(_PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    process(_PRODUCT, kill=1, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    shard = sorted((factors / "a.zarr").rglob("c/*/*"))[-1]
    times = shard.stat()

    def flip():
        with open(shard, "r+b") as file:
            at = shard.stat().st_size - (1 << 20)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
        os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))

    flip()
    with pytest.raises(fl.FormatError, match="does not match its checksum"):
        fl.resume(factors / "c.zarr")
    assert left_at(factors / "c.zarr")[0].done >= left.done
    flip()
    again = process("fl.resume('c.zarr')\nresult = told() | {'digest': digest('c.zarr')}")
    assert again["digest"] == whole["digest"]
    assert "resumed" in again["what"]


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


def test_a_torn_index_costs_its_shard_only(process, factors):
    whole = process(_PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    process(_PRODUCT, kill=3, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    (shard,) = [os.path.join(f, n) for f, _, names in os.walk(left.build) for n in names if n.isdigit()]
    with open(shard, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"torn")
    again = process(_PRODUCT, memory="160MiB", workers=1)
    assert again["digest"] == whole["digest"]
    assert fl.check(factors / "c.zarr").ok


def test_another_process_that_lives_is_named(process, factors):
    code = """
def saved(n):
    if n == 1:
        try:
            fl.resume("c.zarr")
        except fl.StorageError as error:
            Path("said").write_text(str(error) + f" {os.getpid()}")
record.saved = saved
fl.matmul(fl.open("a.zarr"), fl.open("b.zarr").T, out="c.zarr", memory="160MiB")
"""
    process(code)
    said = (factors / "said").read_text()
    assert f"is being computed by process {said.split()[-1]};" in said


def test_operands_in_memory_and_npy_outputs(process, factors):
    code = """
a = np.random.default_rng(1).standard_normal((2048, 512))
b = np.random.default_rng(2).standard_normal((512, 4096))
fl.matmul(a, b, out="c.npy", memory="170MiB")
result = told() | {"sum": hashlib.blake2b(Path("c.npy").read_bytes()).hexdigest()}
"""
    whole = process(code)
    os.remove(factors / "c.npy")
    process(code, kill=1)
    with pytest.raises(fl.Error, match="A was an array in memory; make the same call again"):
        fl.resume(factors / "c.npy")
    again = process(code)
    assert again["sum"] == whole["sum"]
    assert 0 < again["flops"] < whole["flops"]


def test_update_of_an_existing_array(process, factors):
    begin = 'fl.from_numpy(np.ones((4096, 4096)), "c.zarr", overwrite=True)\n'
    code = """
C = fl.open("c.zarr", mode="r+")
fl.matmul(fl.open("a.zarr"), fl.open("b.zarr").T, out=C, alpha=2, beta=-3, memory="200MiB")
result = told() | {"digest": digest("c.zarr")}
"""
    whole = process(begin + code)
    process(begin + code, kill=2)
    assert float(fl.open(factors / "c.zarr")[5, 5]) == 1.0  # the old version stands
    again = process('fl.resume("c.zarr")\nresult = told() | {"digest": digest("c.zarr")}')
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]


def test_short_calls_have_no_record(isolated, factors):
    code = """
from flagstone._resume import record
record.saved = lambda n: 1 / 0
fl.matmul(fl.open("a.zarr"), fl.open("b.zarr").T, out="c.zarr", memory="160MiB")
"""
    isolated(code)


def test_command_line(process, factors):
    def flagstone(*arguments):
        place = os.path.join(os.path.dirname(sys.executable), "flagstone")
        return subprocess.run([place, *arguments], cwd=factors, capture_output=True, text=True, check=False)

    process(_PRODUCT, kill=2, memory="160MiB", workers=1)
    listed = flagstone("scratch").stdout
    assert "resumable" in listed
    assert "c.zarr, matmul" in listed
    facts = json.loads(flagstone("scratch", "--json").stdout)["begun"]
    assert [one["operation"] for one in facts if one["path"] == str(factors / "c.zarr")] == ["matmul"]
    assert "--all deletes it too" in flagstone("scratch", "--clear", "--yes").stdout
    done = flagstone("resume", "c.zarr", "--memory", "300MiB", "--json")
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["from"] < 1
    assert fl.check(factors / "c.zarr").ok
    again = flagstone("resume", "c.zarr")
    assert again.returncode == 1
    assert "has nothing to resume" in again.stderr
    assert str(factors) not in flagstone("scratch").stdout
    process(_PRODUCT, kill=2, memory="160MiB", workers=1)
    assert "Deleted" in flagstone("scratch", "--clear", "--all", "--yes").stdout
    assert not left_at(factors / "c.zarr")


def test_what_a_killed_cpp_program_left_is_listed_and_named(tmp_path):
    """One scratch, one listing for both languages; only the program itself can go on."""
    program = cpp_example("long_program")
    always = {**os.environ, "FLAGSTONE_CHECKPOINT_SECONDS": "0"}

    def run(*arguments):
        return subprocess.run([program, str(tmp_path), *arguments], env=always, check=False).returncode

    def flagstone(*arguments):
        place = os.path.join(os.path.dirname(sys.executable), "flagstone")
        return subprocess.run([place, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    def listed():
        begun = json.loads(flagstone("scratch", "--json").stdout)["begun"]
        return [one for one in begun if one["path"] == str(tmp_path / "centred.zarr")]

    assert run("9") == -signal.SIGKILL
    (told,) = listed()
    assert (told["operation"], told["checkpoints"], told["done"]) == ("centring", 9, 0.75)
    assert told["resumable"]
    assert not told["running"]
    assert "centred.zarr, centring 75% done" in flagstone("scratch").stdout
    wanted = (
        r"resume: '.*centred\.zarr' is computed by a C\+\+ program \(centring\); start that program again: "
        r"it goes on at 75%\.$"
    )
    with fails(fl.Error, wanted):
        fl.resume(tmp_path / "centred.zarr")
    refused = flagstone("resume", "centred.zarr")
    assert refused.returncode == 1
    assert re.search(wanted, refused.stderr.strip())
    assert "Traceback" not in refused.stderr
    assert run() == 0
    assert not listed()
    x = np.fromfile(tmp_path / "x.bin").reshape(4096, 512)
    centred = np.asarray(fl.open(tmp_path / "centred.zarr"))
    assert np.max(np.abs(centred - (x - x.mean(axis=0)))) <= 4096 * np.finfo(float).eps * np.abs(x).max()
    assert run("3") == -signal.SIGKILL  # Python's call with the same out= says what it throws away
    with pytest.warns(fl.LeftoverWarning, match="a centring that was 56% done is thrown away"):
        fl.from_numpy(np.ones((2, 2)), tmp_path / "centred.zarr", overwrite=True)
    assert not listed()


# Inside a superblock ----------------------------------------------------------------------------------------


_INNER = """
with fl.Runtime(workers=2):
    fl.matmul(fl.open("a.zarr"), fl.open("b.zarr"), out="c.zarr", alpha=0.5)
result = told() | {"digest": digest("c.zarr")}
"""


def test_product_of_one_superblock(process, tmp_path, rng):
    """C fits into memory: sums over the first part of the inner dimension are kept."""
    fl.from_numpy(rng.standard_normal((700, 20000), dtype="float32"), tmp_path / "a.zarr")
    fl.from_numpy(rng.standard_normal((20000, 600), dtype="float32"), tmp_path / "b.zarr")
    whole = process(_INNER)
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(_INNER, kill=2)
    first = left_at(tmp_path / "c.zarr")[0].done
    process(_INNER, kill=2)
    second = left_at(tmp_path / "c.zarr")[0].done
    assert 0 < first < second < 1
    again = process(_INNER)
    assert again["digest"] == whole["digest"]
    assert again["flops"] == pytest.approx((1 - second) * whole["flops"], rel=0.05)
    report = fl.check(tmp_path / "c.zarr")
    assert report.ok
    assert report.verified == report.chunks
