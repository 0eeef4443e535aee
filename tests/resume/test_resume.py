"""Killed products go on where they stopped, with the same bits; what changed meanwhile is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

# The product ------------------------------------------------------------------------------------------------


PRODUCT = """
options = dict(memory=memory) if memory else {}
with fl.Runtime(workers=workers):
    C = fl.matmul(fl.open("a.zarr"), fl.open("b.zarr").T, out="c.zarr", **options)
result = told() | {"digest": digest("c.zarr")}
"""


def test_product_killed_at_several_checkpoints(process, factors):
    whole = process(PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    for kill in (1, 3):
        process(PRODUCT, kill=kill, memory="160MiB", workers=1)
        assert not (factors / "c.zarr").exists()
        (left,) = left_at(factors / "c.zarr")
        assert left.resumable
        assert not left.live
        assert left.saves == kill
        assert 0 < left.done < 1
        again = process(PRODUCT, memory="160MiB", workers=1)
        assert again["digest"] == whole["digest"]
        assert again["flops"] == pytest.approx((1 - left.done) * whole["flops"])
        assert again["what"].endswith(f"resumed at {left.done:.0%}")
        assert not left_at(factors / "c.zarr")
        assert fl.check(factors / "c.zarr").ok
        (factors / "c.zarr").rename(factors / f"again{kill}.zarr")


def test_product_twice_killed_with_other_limits_and_workers(process, factors):
    whole = process(PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    process(PRODUCT, kill=1, memory="160MiB", workers=1)
    first = left_at(factors / "c.zarr")[0].done
    process(PRODUCT, kill=1, memory="190MiB", workers=2)
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
    process(PRODUCT, kill=2, memory="160MiB", workers=1)
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
    process(PRODUCT, kill=2, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    state = os.path.join(left.notes, "state")
    whole = Path(state).read_bytes()
    for damaged in (whole[:-1], whole[:20], bytes([whole[0] ^ 1]) + whole[1:], whole[:-2] + b"\7\7"):
        Path(state).write_bytes(damaged)
        with pytest.raises(fl.FormatError, match="is damaged"):
            fl.resume(factors / "c.zarr")
    code = "warnings.simplefilter('error', fl.LeftoverWarning)\n" + PRODUCT
    with pytest.raises(AssertionError, match="begun again"):
        process(code, memory="160MiB", workers=1)
    again = process(PRODUCT, memory="160MiB", workers=1)
    assert "resumed" not in again["what"]
    assert fl.check(factors / "c.zarr").ok


def test_an_unreadable_record_is_named_as_such(process, factors):
    process(PRODUCT, kill=1, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    (Path(left.notes) / "record.json").write_text("{}")
    with pytest.warns(fl.LeftoverWarning, match="an operation, whose record is damaged, that was"):
        fl.matmul(fl.from_numpy(np.ones((2, 2))), np.ones((2, 2)), out=factors / "c.zarr")


def test_a_damaged_operand_keeps_what_is_done(process, factors):
    whole = process(PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    process(PRODUCT, kill=1, memory="160MiB", workers=1)
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


def test_a_torn_index_costs_its_shard_only(process, factors):
    whole = process(PRODUCT, memory="160MiB", workers=1)
    (factors / "c.zarr").rename(factors / "whole.zarr")
    process(PRODUCT, kill=3, memory="160MiB", workers=1)
    (left,) = left_at(factors / "c.zarr")
    (shard,) = [os.path.join(f, n) for f, _, names in os.walk(left.build) for n in names if n.isdigit()]
    with open(shard, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"torn")
    again = process(PRODUCT, memory="160MiB", workers=1)
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
