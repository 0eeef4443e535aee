"""Arrays written anew: other chunks, dtypes and orders of dimensions, from every source, in fixed memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import output_of, peak_memory, reset_peak
from tests.support.strategies import DTYPES, shapes, stored_as, values


@examples(20)
@given(shapes(), st.sampled_from(DTYPES), st.integers(0, 1000))
def test_there_and_back(tmp_path_factory, given_shapes, dtype, seed):
    shape, chunks, others = given_shapes
    folder = tmp_path_factory.mktemp("spaces")
    x = values(shape, dtype, seed)
    a = stored_as(x, folder / "a.zarr", chunks)
    b = fl.rechunk(a, others, out=str(folder / "b.zarr"))
    assert b.chunks == others
    assert b.dtype == x.dtype
    assert np.asarray(b).tobytes() == x.tobytes()
    assert np.array_equal(zarr.open(str(folder / "b.zarr"), mode="r")["array"][...], x)
    c = fl.rechunk(b, chunks)
    assert c.chunks == chunks
    assert np.asarray(c).tobytes() == x.tobytes()


@examples(20)
@given(shapes(), st.sampled_from(DTYPES), st.randoms(use_true_random=False))
def test_transposed_twice(tmp_path_factory, given_shapes, dtype, random):
    shape, chunks, others = given_shapes
    folder = tmp_path_factory.mktemp("spaces")
    x = values(shape, dtype)
    a = stored_as(x, folder / "a.zarr", chunks)
    axes = random.sample(range(len(shape)), len(shape))
    b = fl.transpose(a, axes, chunks=tuple(others[d] for d in axes))
    assert np.array_equal(np.asarray(b), x.transpose(axes))
    c = fl.transpose(b, [axes.index(d) for d in range(len(shape))])
    assert np.array_equal(np.asarray(c), x)
    assert b.chunks == b.shape or c.chunks == others
    assert np.array_equal(np.asarray(fl.transpose(a.T)), x)
    assert np.array_equal(np.asarray(fl.rechunk(a.T.conj(), others[::-1])), x.T.conj())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "raw", "hdf5", "hdf5 packed", "zarr packed", "zarr 2", "memory"])
def test_every_source(tmp_path, kind, order):
    x = np.asarray(values((123, 57, 9), "float32"), order=order)
    if kind == "npy":
        np.save(tmp_path / "x.npy", x)
        a = fl.open(str(tmp_path / "x.npy"))
    elif kind == "raw":
        (tmp_path / "x.bin").write_bytes(b"head" * 3 + x.tobytes(order))
        a = fl.open_raw(str(tmp_path / "x.bin"), "float32", x.shape, order=order, offset=12)
    elif kind.startswith("hdf5"):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            packed = {"chunks": (20, 10, 9), "compression": "gzip", "shuffle": True}
            file.create_dataset("x", data=x, **(packed if "packed" in kind else {}))
        a = fl.open(str(tmp_path / "x.h5"), key="x")
    elif kind == "zarr packed":
        zarr.create_array(
            str(tmp_path / "x.zarr"), shape=x.shape, dtype=x.dtype, chunks=(50, 20, 4), fill_value=3.5,
            filters=[zarr.codecs.TransposeCodec(order=(2, 0, 1))] if order == "F" else None,
        )[:100] = x[:100]  # fmt: skip
        x[100:] = 3.5
        a = fl.open(str(tmp_path / "x.zarr"))
    elif kind == "zarr 2":
        zarr.create_array(
            str(tmp_path / "x.zarr"), shape=x.shape, dtype=x.dtype, chunks=(50, 20, 4), zarr_format=2,
            order=order, compressors=None,
        )[...] = x  # fmt: skip
        a = fl.open(str(tmp_path / "x.zarr"))
    else:
        a = x
    assert np.array_equal(np.asarray(fl.rechunk(a, (16, 57, 2))), x)
    assert np.array_equal(np.asarray(fl.transpose(a, (1, 2, 0))), x.transpose(1, 2, 0))
    flat = fl.transpose(a, (2, 0, 1), out=str(tmp_path / "t.npy"))
    assert np.array_equal(np.load(tmp_path / "t.npy"), x.transpose(2, 0, 1))
    assert flat.path.endswith(".npy")


@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.parametrize("wanted", ["int32", "float32", "float64", "complex128", "bool"])
def test_conversion(tmp_path, given, wanted):
    x = values((30, 40), given)
    a = stored_as(x, tmp_path / "a.zarr", (7, 40))
    if np.can_cast(given, wanted, "same_kind"):
        b = fl.rechunk(a, (30, 9), dtype=wanted)
    else:
        with pytest.raises(fl.ShapeError, match="casting='unsafe'"):
            fl.rechunk(a, (30, 9), dtype=wanted)
        if np.dtype(given).kind == "c":
            return
        b = fl.rechunk(a, (30, 9), dtype=wanted, casting="unsafe")
    assert b.dtype == wanted
    assert np.array_equal(np.asarray(b), x.astype(wanted))


def test_chunks_as_people_write_them(tmp_path):
    a = stored_as(values((30, 40), "int16"), tmp_path / "a.zarr", (7, 40))
    assert fl.rechunk(a, (-1, 8)).chunks == (30, 8)
    assert fl.rechunk(a, (5, None)).chunks == (5, 40)
    assert fl.rechunk(a).chunks == tuple(fl._core.default_chunks([30, 40], "int16"))
    for bad in [(5,), (0, 4), (-2, 4), (2.5, 4), "ab"]:
        with pytest.raises((fl.ShapeError, TypeError), match="rechunk"):
            fl.rechunk(a, bad)
    for axes in [(0,), (0, 0), (0, 2), 3, "ab"]:
        with pytest.raises(fl.ShapeError, match="transpose: axes"):
            fl.transpose(a, axes)
    assert np.array_equal(fl.rechunk(a + 1, (5, 40))[...], a[...] + 1)


def test_out_follows_the_rules_of_every_routine(tmp_path):
    x = values((30, 40), "float64")
    a = stored_as(x, tmp_path / "a.zarr", (7, 40))
    zarr.open(str(tmp_path / "a.zarr"))["array"].attrs["unit"] = "kg"
    again = fl.open(str(tmp_path / "a.zarr"), mode="r")
    assert fl.rechunk(a, (30, 4), out=a) is a  # in place of its own source: exchanged when it is complete
    assert a.chunks == (30, 4)
    assert np.array_equal(np.asarray(a), x)
    assert again.chunks == (7, 40)
    assert np.array_equal(np.asarray(again), x)
    assert zarr.open(str(tmp_path / "a.zarr"))["array"].attrs["unit"] == "kg"
    here = np.zeros((40, 30))
    assert fl.transpose(a, out=here) is here
    assert np.array_equal(here, x.T)
    with pytest.raises(fl.ShapeError, match="must agree|agrees"):
        fl.transpose(a, out=np.zeros((30, 40)))
    with pytest.raises(fl.StorageError, match="open for reading"):
        fl.rechunk(a, (3, 3), out=fl.open(str(tmp_path / "a.zarr"), mode="r"))
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "thesis.txt").write_text("mine")
    with pytest.raises(fl.StorageError, match="not replaced"):
        fl.rechunk(a, (3, 3), out=str(tmp_path / "keep"))
    fl.rechunk(a, (5, 5), out=str(tmp_path / "sum.zarr"), checksum="inner")
    assert fl.check(str(tmp_path / "sum.zarr")).ok
    assert "crc32c" in (tmp_path / "sum.zarr" / "array" / "zarr.json").read_text()
    assert not [name for name in os.listdir(tmp_path) if "flagstone-tmp" in name]


@pytest.mark.parametrize("to", [[512, 512], [2048, 64], [1, 2048]])
@pytest.mark.parametrize("extra", [0, 6, 60])
def test_plan_limit_and_bytes(isolated, to, extra):
    """From row stripes: one pass or two, what was planned is what happens, and the limit is kept."""
    done = isolated(
        """
        a = fl.create("a.zarr", (2048, 2048), "float32", (16, 2048))
        for i in range(0, 2048, 256):
            a[i:i + 256] = np.random.default_rng(i).standard_normal((256, 2048), dtype="float32")
        least = fl.rechunk.plan(a, to).least_memory
        limit = least + (extra << 20)
        plan = fl.rechunk.plan(a, to, memory=limit)
        result = dict(limit=limit, planned=[plan.bytes_read, plan.bytes_written], passes=plan.passes,
                      note=plan.note, runs=[])
        for _ in range(3 if plan.passes > 1 else 1):
            b = fl.rechunk(a, to, memory=limit, out="b.zarr")
            done = fl.stats()
            same = all(np.array_equal(a[i:i + 64], b[i:i + 64]) for i in range(0, 2048, 64))
            result["runs"].append([done.peak_memory, done.passes, done.bytes_read, done.bytes_written, same])
        """,
        to=to, extra=extra,
    )  # fmt: skip
    nbytes = 2048 * 2048 * 4
    planned, passes = done["planned"], done["passes"]
    assert nbytes <= planned[0] <= nbytes * passes
    for peak, run_passes, read, written, same in done["runs"]:
        assert same
        assert peak <= done["limit"]
        assert run_passes == passes
        assert written == planned[1] <= 1.1 * nbytes * passes
        # Whatever happens, each pass reads everything once at most.
        assert nbytes <= read <= nbytes * passes
    # What is still in memory from the first pass is not read again. A tile whose store has not ended cannot
    # leave, so that an earlier one does and is read again: more are where processors and disk are kept busy
    # (1.01 to 1.20 times the plan were seen, the law above allows 1.34). One run of three reads as planned.
    reads = [read for _, _, read, _, _ in done["runs"]]
    assert any(read == pytest.approx(planned[0], rel=0 if passes == 1 else 0.2, abs=0) for read in reads), (
        reads
    )
    assert ("through scratch" in done["note"]) == (passes == 2)
    if extra == 60:
        assert passes == 1
        assert reads[0] + done["runs"][0][3] <= 2.02 * nbytes


def test_refused_before_any_byte_moves(isolated):
    refused = isolated(
        """
        a = fl.create("a.zarr", (2048, 2048), "float32", (1024, 1024))
        try:
            fl.rechunk(a, (2048, 64), memory="40MiB", out="b.zarr")
        except fl.BudgetError as error:
            result = [str(error), os.path.exists("b.zarr")]
        """
    )
    assert "needs at least" in refused[0]
    assert "Raise memory=" in refused[0]
    assert not refused[1]


@pytest.mark.parametrize("ndim", [1, 2, 7, 20, 32])
def test_one_to_thirty_two_dimensions(tmp_path, ndim):
    shape = tuple(2 if d % 8 == 0 else 3 if d % 8 == 5 else 1 for d in range(ndim))
    x = values(shape, "int32")
    a = stored_as(x, tmp_path / "a.zarr", tuple(min(2, n) for n in shape))
    part = (0, *[slice(None, None, 2)] * (ndim - 1))
    assert np.array_equal(a[...], x)
    assert np.array_equal(a[part], x[part])
    b = fl.rechunk(a, (-1,) * ndim, out=str(tmp_path / "b.zarr"))
    assert b.chunks == shape
    assert np.array_equal(np.asarray(b), x)
    b.resize((*shape[:-1], shape[-1] + 3))
    grown = np.zeros(b.shape, "int32")
    grown[..., : shape[-1]] = x
    assert np.array_equal(zarr.open(str(tmp_path / "b.zarr"), mode="r")["array"][...], grown)
    b.resize(shape)
    assert np.array_equal(np.asarray(b), x)
    c = fl.transpose(b, out=str(tmp_path / "c.zarr"))
    assert np.array_equal(np.asarray(c), x.T)
    assert np.array_equal(zarr.open(str(tmp_path / "c.zarr"), mode="r")["array"][...], x.T)
    assert fl.check(str(tmp_path / "c.zarr")).ok


def test_command(tmp_path):
    x = values((60, 40), "float64")
    stored_as(x, tmp_path / "a.zarr", (5, 40))

    def flagstone(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "flagstone", "rechunk", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    done = flagstone("a.zarr", "b.zarr", "--chunks", "60,-1", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert "one pass" in done.stdout
    b = fl.open(str(tmp_path / "b.zarr"))
    assert b.chunks == (60, 40)
    assert np.array_equal(np.asarray(b), x.astype("float32"))
    done = flagstone("a.zarr", "t.npy", "--axes", "1,0", "--json", "--memory", "1GiB")
    assert json.loads(done.stdout)["stats"]["passes"] == 1
    assert np.array_equal(np.load(tmp_path / "t.npy"), x.T)
    assert "needs" not in flagstone("a.zarr", "b.zarr", "--plan").stderr
    assert flagstone("a.zarr", "b.zarr").returncode == 1
    assert flagstone("a.zarr", "c.zarr", "--chunks", "1,x").returncode == 2


def swept(folder: str, side: int, step: int) -> list[list[int]]:
    """Runs in a process of its own: limits, and the peaks above them, from what is refused to twice that."""
    a = fl.open(f"{folder}/rows.zarr")
    with fl.Runtime(memory="1GiB", workers=1):
        fl.rechunk(a, (-1, side // 96), out=f"{folder}/b.zarr")  # what a first call loads aside
    over, ran = [], 0
    for workers in (1, 2):
        least = 0
        limit = fl._core.resident_bytes() + (16 << 20)
        while not least or limit < 2 * least:
            reset_peak()
            try:
                with fl.Runtime(memory=limit, workers=workers):
                    fl.rechunk(a, (-1, side // 96), out=f"{folder}/b.zarr")
                ran, least = ran + 1, least or limit
                if peak_memory() > limit:
                    over.append([limit, peak_memory()])
            except fl.BudgetError:
                assert not least
            limit += step << 20
    assert ran > 20
    return over


@pytest.mark.slow
def test_limits_between_those_that_a_scheme_was_chosen_for(tmp_path):
    """Rows to columns in two passes: a thousand thin pieces of each tile were known and not counted."""
    side = 6144
    a = fl.create(tmp_path / "rows.zarr", (side, side), "float32", chunks=(side // 96, side))
    a[...] = np.random.default_rng(0).random((side, side), dtype="float32")
    assert json.loads(output_of(__file__, str(tmp_path), str(side), "3", folder=tmp_path)) == []


if __name__ == "__main__":
    print(json.dumps(swept(sys.argv[1], *map(int, sys.argv[2:]))))
