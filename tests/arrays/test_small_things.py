"""Small things that a stranger meets first: what NumPy and notebooks ask, indices, words, outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.error_sentences import fails


@pytest.fixture
def a(rng):
    return rng.random((6, 5))


@pytest.fixture
def A(tmp_path, a):
    np.save(tmp_path / "a.npy", a)
    return fl.open(tmp_path / "a.npy")


def test_what_numpy_asks_first_is_answered(A, a):
    for lazy in (A, A.T, A + 1, A.sum(0)):
        like = np.asarray(lazy)
        assert np.shape(lazy) == like.shape
        assert np.ndim(lazy) == like.ndim
        assert np.size(lazy) == like.size
        assert np.size(lazy, 0) == like.shape[0]
        assert np.iscomplexobj(lazy) is False
        assert np.isrealobj(lazy) is True
    assert np.iscomplexobj(A * 1j)
    with fails(TypeError, "numpy.fft|numpy.sort", "np.asarray"):
        np.sort(A)


def test_nothing_is_read_for_it(tmp_path):
    with open(tmp_path / "h.npy", "wb") as file:  # 8 TiB that nobody has
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<c8", "fortran_order": False, "shape": (1 << 20, 1 << 20)}
        )
        file.truncate(file.tell() + (8 << 40))
    A = fl.open(tmp_path / "h.npy")
    assert np.shape(A) == (1 << 20, 1 << 20)
    assert np.size(A, 1) == 1 << 20
    assert np.iscomplexobj(A)
    assert A.real.dtype == np.float32


def test_parts_of_complex_numbers(tmp_path, rng):
    z = rng.random((4, 3)) + 1j * rng.random((4, 3))
    Z = fl.from_numpy(z, tmp_path / "z.zarr")
    np.testing.assert_array_equal(Z.real[...], z.real)
    np.testing.assert_array_equal(Z.imag[...], z.imag)
    np.testing.assert_array_equal(Z.conj().imag[...], -z.imag)
    np.testing.assert_array_equal(Z.T.imag[...], z.T.imag)
    X = fl.from_numpy(z.real, tmp_path / "x.zarr")
    np.testing.assert_array_equal(X.real[...], z.real)
    np.testing.assert_array_equal(X.imag[...], np.zeros((4, 3)))
    np.testing.assert_allclose(np.asarray(Z.sum(0).imag), z.sum(0).imag, rtol=1e-14)


def test_correction_and_ddof_are_one_number(A, a):
    for name in ("std", "var"):
        wanted = getattr(a, name)(axis=0, ddof=1)
        method, function = getattr(A, name), getattr(fl, name)
        for found in (
            method(0, ddof=1), method(0, correction=1), function(A, 0, ddof=1), function(A, 0, correction=1),
            getattr(np, name)(A, axis=0, ddof=1),
        ):  # fmt: skip
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-13)
        for call in (method, lambda **given: function(A, **given)):  # noqa: B023 - called at once
            with fails(ValueError, name, "ddof", "correction"):
                call(ddof=1, correction=1)


def test_numbers_are_formatted_and_rounded(A, a):
    assert f"{A.mean():.3f}" == f"{a.mean():.3f}"
    assert round(A.mean(), 2) == round(a.mean(), 2)
    assert "pending" in f"{A.mean(0)}"


def test_indices(tmp_path, A, a):
    np.testing.assert_array_equal(A[range(1, 6, 2)], a[range(1, 6, 2)])
    np.testing.assert_array_equal(A[range(3), range(3)], a[range(3), range(3)])
    np.testing.assert_array_equal(A.oindex[range(2), range(4)], a[:2, :4])
    assert A[range(0)].shape == (0, 5)
    np.testing.assert_array_equal(A[:, None, 1], a[:, None, 1])
    Z = fl.from_numpy(a, tmp_path / "z.zarr")
    Z[range(2)] = 0
    np.testing.assert_array_equal(Z[...], np.r_[np.zeros((2, 5)), a[2:]])
    for key in (1.0, np.float64(1), True, np.True_, "x", (0, 1.5), (None, 1.5), 1j):
        with fails(IndexError, "index", "integers"):
            A[key]
    with fails(IndexError, "out of bounds"):
        A[range(7)]


def test_an_axis_that_is_none(A):
    for axis in ("x", 1.0, [0, 1], ("x",)):
        with fails(TypeError, "sum", "axis", "integer"):
            A.sum(axis=axis)


def test_sources_that_are_none(tmp_path, a):
    with fails(TypeError, "convert", "ndarray", "path"):
        fl.convert(a, tmp_path / "b.npy")


@pytest.mark.parametrize("name", ["c.csv", "c.h5", "c.npz", "c.mtx.gz"])
def test_results_do_not_make_directories_of_other_formats(tmp_path, A, name):
    square = fl.from_numpy(np.eye(5))
    for call in (
        lambda out: fl.matmul(A, square, out=out), lambda out: fl.compute(A + 1, out=out),
        lambda out: fl.pca(A, 2, out=out), lambda out: fl.rechunk(A, (2, 2), out=out),
    ):  # fmt: skip
        with fails(fl.FormatError, name, r"\.zarr", "fl.convert"):
            call(tmp_path / name)
    assert not (tmp_path / name).exists()
    for fine in ("c", "c.zarr", "c.npy", "run-1.5", "v2.0.1"):
        fl.compute(A + 1, out=tmp_path / fine)


def test_results_replace_arrays_and_no_pipes(tmp_path, A, a):
    for name in ("r.zarr", "r.npy"):
        for more in (1, 2):
            fl.compute(A + more, out=tmp_path / name)
            fl.from_numpy(a, tmp_path / f"n-{name}", overwrite=True)
        np.testing.assert_array_equal(fl.open(tmp_path / name)[...], a + 2)
        os.mkfifo(tmp_path / f"p-{name}")
        with fails(fl.FormatError, "compute", "pipe"):
            fl.compute(A, out=tmp_path / f"p-{name}")
        with fails(fl.FormatError, "from_numpy", "pipe"):
            fl.from_numpy(a, tmp_path / f"p-{name}", overwrite=True)


def test_representations(tmp_path, A):
    S = fl.from_blocks([sp.random(40, 30, 0.1, "csr", random_state=0)], tmp_path / "s.zarr")
    for shown, words in ((A, ["6 x 5", "float64"]), (A + 1, ["6 x 5", "add"]), (S, ["40 x 30", "120"])):
        text = shown._repr_html_()
        assert text.startswith("<table>")
        assert all(word in text for word in words)
    odd = fl.from_numpy(np.ones(3), tmp_path / "<b>.zarr")
    assert "<b>" not in odd._repr_html_()
    odd.close()
    assert "closed" in odd._repr_html_()
    result = fl.pca(fl.from_numpy(np.random.default_rng(0).random((300, 80))), 60)
    text = repr(result)
    assert len(text.splitlines()) <= 12
    assert "60 components" in text
    assert "300 x 80" in text
    components, *_ = result  # still a tuple
    assert components.shape == (60, 80)


# The command line -----------------------------------------------------------------------------------------


def flagstone(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "flagstone", *map(str, arguments)], capture_output=True, text=True
    )


def test_outputs_that_exist_ask_for_overwrite(tmp_path, rng):
    a = rng.random((4, 4))
    np.save(tmp_path / "a.npy", a)
    fl.from_numpy(a, tmp_path / "a.zarr")
    np.save(tmp_path / "c.npy", np.zeros((4, 4)))
    product = ["matmul", tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "c.npy"]
    run = flagstone(*product)
    assert run.returncode == 1
    assert "--overwrite" in run.stderr
    assert (np.load(tmp_path / "c.npy") == 0).all()
    assert flagstone(*product, "--overwrite", "--json").returncode == 0
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), a @ a)
    assert (
        flagstone(*product, "--beta", "1", "--json").returncode == 0
    )  # what is there is read, and asked for
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), 2 * (a @ a))
    (tmp_path / "p.zarr").mkdir()
    run = flagstone("pack", tmp_path / "a.zarr", tmp_path / "p.zarr")
    assert run.returncode == 1
    assert "--overwrite" in run.stderr
    assert "overwrite=True" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["matmul", "nothing.npy", "nothing.npy", "-o", "c.npy"], 1, "MissingError"),
        (["info", "nothing.npy"], 1, "MissingError"),
        (["check", "nothing.zarr"], 1, "MissingError"),
        (["matmul", "a.npy"], 2, "MissingParameter"),
    ],
)
def test_errors_are_json_where_json_was_asked_for(arguments, code, kind):
    plain, run = flagstone(*arguments), flagstone(*arguments, "--json")
    assert plain.returncode == run.returncode == code
    told = json.loads(run.stdout)
    assert told["kind"] == kind
    assert told["error"] in plain.stderr
    assert run.stderr == ""


def test_notebooks_see_chunks_plans_and_results(tmp_path, rng):
    A = fl.create(tmp_path / "c.zarr", (1000, 600), "f4", chunks=(100, 300))
    text = A._repr_html_()
    assert text.count("M0 ") - text.count("M0 0H") == 9  # lines between ten rows of chunks
    assert "<svg" not in fl.zeros((0, 3))._repr_html_()
    many = fl.create(tmp_path / "m.zarr", (1 << 40, 1 << 20), "u1", chunks=(1, 1))._repr_html_()
    assert len(many) < 3000
    plan = fl.pca.plan(rng.random((30, 8)), 2)
    assert "peak memory" in plan._repr_html_()
    result = fl.pca(rng.random((30, 8)), 2)
    assert "30 x 8" in result._repr_html_()
    assert "disk" in fl.stats()._repr_html_()
