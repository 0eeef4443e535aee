"""Killed rechunks, principal components and conversions go on where they stopped, with the same bits."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.killed_calls import check_goes_on, left_at

# Restructuring ----------------------------------------------------------------------------------------------


_RECHUNK = """
fl.rechunk(fl.open("rows.zarr"), (512, 512), out="square.zarr", dtype="float32", memory=memory)
result = told() | {"digest": digest("square.zarr")}
"""


def test_rechunk_and_transpose(process, tmp_path, rng):
    fl.rechunk(rng.standard_normal((4096, 2048)), (64, -1), out=tmp_path / "rows.zarr")
    whole = process(_RECHUNK, memory="100MiB")
    (tmp_path / "square.zarr").rename(tmp_path / "whole.zarr")
    process(_RECHUNK, kill=7, memory="100MiB")
    (left,) = left_at(tmp_path / "square.zarr")
    assert 0 < left.done < 1
    assert left.operation == "rechunk"
    code = 'fl.resume("square.zarr", memory="140MiB")\nresult = told() | {"digest": digest("square.zarr")}'
    again = process(code)
    assert again["digest"] == whole["digest"]
    assert again["read"] < whole["read"]
    turn = 'fl.transpose(fl.open("square.zarr"), out="turned.zarr", memory="90MiB")'
    process(turn, kill=2)
    process('fl.resume("turned.zarr")')
    assert np.array_equal(
        np.asarray(fl.open(tmp_path / "turned.zarr")).T, np.asarray(fl.open(tmp_path / "square.zarr"))
    )


_TWO_PASSES = """
fl.rechunk(fl.open("rows.zarr"), (-1, 16), out="columns.zarr", memory=memory)
written = fl.stats().bytes_written / fl.open("rows.zarr").nbytes
result = told() | {"written": written, "saves": len(saves)}
"""


def checkpoints(process, tmp_path, memory: str) -> int:
    """How many an unbroken call makes: the budget decides how many boxes there are."""
    number = process(_TWO_PASSES, memory=memory)["saves"]
    fl.delete(tmp_path / "columns.zarr")
    return number


@pytest.mark.parametrize("share", [0, 0.1, 0.95], ids=["at once", "in the first", "in the second"])
def test_rechunk_in_two_passes(process, tmp_path, rng, share):
    values = rng.standard_normal((4096, 4096)).astype("float32")
    fl.rechunk(values, (16, -1), out=tmp_path / "rows.zarr")
    process(_TWO_PASSES, kill=1 + int(share * checkpoints(process, tmp_path, "90MiB")), memory="90MiB")
    (left,) = left_at(tmp_path / "columns.zarr")
    again = process(_TWO_PASSES, memory="90MiB")
    assert "resumed" in again["what"]
    assert (left.done > 0.5) == (share > 0.5)
    assert again["written"] == pytest.approx(2 * (1 - left.done), abs=0.02)
    assert np.array_equal(np.asarray(fl.open(tmp_path / "columns.zarr")), values)


def test_rechunk_in_two_passes_goes_on_within_another_limit(process, tmp_path, rng):
    values = rng.standard_normal((4096, 4096)).astype("float32")
    fl.rechunk(values, (16, -1), out=tmp_path / "rows.zarr")
    for first, then in (("90MiB", "2GiB"), ("120MiB", "76MiB")):
        process(_TWO_PASSES, kill=checkpoints(process, tmp_path, first) // 2, memory=first)
        (left,) = left_at(tmp_path / "columns.zarr")
        again = process(_TWO_PASSES, memory=then)
        # What lies between is of use to its own scheme only; where that does not fit, both passes begin again
        # for each tile that is not finished.
        if then == "2GiB":
            assert again["written"] == pytest.approx(2 * (1 - left.done), abs=0.05)
        assert again["written"] <= 4 * (1 - left.done) + 0.05
        assert np.array_equal(np.asarray(fl.open(tmp_path / "columns.zarr")), values)


def test_what_lay_between_two_passes_is_lost(process, tmp_path, rng):
    values = rng.standard_normal((4096, 4096)).astype("float32")
    fl.rechunk(values, (16, -1), out=tmp_path / "rows.zarr")
    process(_TWO_PASSES, kill=checkpoints(process, tmp_path, "90MiB") // 10, memory="90MiB")
    (left,) = left_at(tmp_path / "columns.zarr")
    os.truncate(Path(left.notes) / "between", 100)
    again = process(_TWO_PASSES, memory="90MiB")
    assert again["written"] == pytest.approx(2, abs=0.02)
    assert np.array_equal(np.asarray(fl.open(tmp_path / "columns.zarr")), values)


def test_finished_tiles_of_zeros_are_not_computed_again(process, tmp_path, rng):
    """They are stored nowhere, which is no sign that they were lost."""
    values = rng.standard_normal((4096, 2048))
    values[:2048] = 0
    np.save(tmp_path / "rows.npy", values)
    code = 'fl.rechunk(fl.open("rows.npy"), (512, 512), out="square.zarr", memory="100MiB")\nresult = told()'
    process(code, kill=3, memory="100MiB")
    (left,) = left_at(tmp_path / "square.zarr")
    assert 0 < left.done < 0.5
    assert process(code)["read"] == pytest.approx((1 - left.done) * values.nbytes, rel=0.01)
    assert np.array_equal(np.asarray(fl.open(tmp_path / "square.zarr")), values)


def test_rechunk_with_another_codec_is_another_call(process, tmp_path, rng):
    values = rng.standard_normal((4096, 1024))
    fl.rechunk(values, (64, -1), out=tmp_path / "rows.zarr")
    code = """
import warnings
warnings.simplefilter("ignore", fl.LeftoverWarning)
options = dict(codec=codec, order=order, memory="100MiB")
fl.rechunk(fl.open("rows.zarr"), (512, 512), out="square.zarr", **options)
result = told()
"""
    process(code, kill=1, codec="zstd:1", order="F")
    process('fl.resume("square.zarr")')
    made = fl.open(tmp_path / "square.zarr")
    assert (made._core.codec, made._core.order) == ("zstd:1", "F")
    assert np.array_equal(made[...], values)
    process(code, kill=1, codec="zstd:1", order="F")
    assert "resumed" not in process(code, codec="gzip:1", order="F")["what"]
    process(code, kill=1, codec="gzip:1", order="F")
    assert "resumed" not in process(code, codec="gzip:1", order="C")["what"]
    made = fl.open(tmp_path / "square.zarr")
    assert (made._core.codec, made._core.order) == ("gzip:1", "C")
    assert np.array_equal(made[...], values)


# Principal components ---------------------------------------------------------------------------------------


_PCA = """
fl.pca(fl.open("x.zarr"), 6, method=method, out="p.zarr", seed=3, tol=1e-9)
result = told() | {"digest": digest("p.zarr"), "method": fl.stats().method}
"""


@pytest.mark.parametrize(
    ("kind", "method"),
    [*itertools.product(["tall", "wide", "sparse"], ["gram", "krylov"]), ("sparse", "krylov-schur")],
)
def test_pca(process, tmp_path, rng, kind, method):
    if kind == "sparse":
        fl.from_blocks([sp.random(6000, 900, 0.02, "csr", random_state=1)], tmp_path / "x.zarr")
    else:
        shape = (6000, 900) if kind == "tall" else (900, 6000)
        fl.from_numpy(rng.standard_normal(shape) + 3, tmp_path / "x.zarr")
    check_goes_on(process, tmp_path / "p.zarr", _PCA, (1, 2) if method == "gram" else (1, 4), method=method)


@pytest.mark.parametrize("scaled", [False, True])
def test_pca_of_chosen_rows(process, tmp_path, scaled):
    """The record keeps a choice of rows; where values are scaled too, the same call goes on and no other."""
    fl.from_blocks([sp.random(6000, 900, 0.02, "csr", random_state=1)], tmp_path / "x.zarr")
    choice = "fl.open('x.zarr')[np.arange(6000) % 3 > 0, 5:]" + (" * 2.0" if scaled else "")
    call = "import numpy as np\n" + _PCA.replace('fl.open("x.zarr")', choice)
    whole = process(call, method="krylov")
    (tmp_path / "p.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=3, method="krylov")
    (left,) = left_at(tmp_path / "p.zarr")
    assert 0 < left.done < 1
    resume = 'fl.resume("p.zarr")\nresult = told() | {"digest": digest("p.zarr")}'
    if scaled:
        with pytest.raises(AssertionError, match="pending steps"):
            process(resume)
    again = process(call, method="krylov") if scaled else process(resume)
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]


def test_another_choice_of_rows_is_another_call(process, tmp_path):
    fl.from_blocks([sp.random(6000, 900, 0.02, "csr", random_state=1)], tmp_path / "x.zarr")
    process(_PCA.replace('fl.open("x.zarr")', 'fl.open("x.zarr")[:4000]'), kill=2, method="krylov")
    code = "import pytest\nwith pytest.warns(fl.LeftoverWarning, match='another'):\n    "
    other = _PCA.strip().replace('fl.open("x.zarr")', 'fl.open("x.zarr")[:4001]')
    again = process(code + other, method="krylov")
    assert "resumed" not in again["what"]


def test_pca_goes_on_by_the_method_it_began_with(process, tmp_path, rng):
    fl.from_numpy(rng.standard_normal((6000, 900)), tmp_path / "x.zarr")
    whole = process(_PCA, method="auto")
    assert whole["method"] == "gram"
    (tmp_path / "p.zarr").rename(tmp_path / "whole.zarr")
    process(
        "with fl.Runtime(workers=2):\n" + _PCA.strip().replace("fl.pca", "    fl.pca", 1),
        kill=1,
        method="auto",
    )
    code = "with fl.Runtime(workers=1, memory='190MiB'): fl.resume('p.zarr')\n"
    again = process(code + 'result = told() | {"digest": digest("p.zarr"), "method": fl.stats().method}')
    assert again["method"] == "gram"
    assert again["digest"] == whole["digest"]


def test_numerical_errors_leave_nothing(process, tmp_path):
    x = np.random.default_rng(0).standard_normal((3000, 400))
    x[7, 5] = np.nan
    fl.from_numpy(x, tmp_path / "x.zarr")
    with pytest.raises(AssertionError, match="NumericalError"):
        process(_PCA, method="krylov")
    assert not left_at(tmp_path / "p.zarr")


# Conversion -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["new.zarr", "new.npy"])
def test_convert(process, tmp_path, rng, target):
    values = rng.standard_normal((4000, 5000))
    np.save(tmp_path / "old.npy", values)
    code = f"fl.convert('old.npy', '{target}')"
    process(code, kill=2)
    (left,) = left_at(tmp_path / target)
    assert 0 < left.done < 1
    again = process(f"fl.resume('{target}')\nresult = told()")
    assert 0 < again["read"] < values.nbytes
    assert np.array_equal(np.asarray(fl.open(tmp_path / target)), values)
    if target.endswith(".zarr"):
        report = fl.check(tmp_path / target)
        assert report.ok
        assert report.verified == report.chunks
