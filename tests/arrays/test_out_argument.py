"""Where results go: what `out=` takes, replaces and leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.expressions.test_elementwise import close


@pytest.mark.parametrize("out", ["a.zarr", "b.npy", "existing", "operand", "ndarray", "memory"])
def test_outputs(tmp_path, out):
    x = np.random.default_rng(7).standard_normal((1100, 1300))
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    target = {
        "existing": lambda: fl.create(tmp_path / "e.zarr", x.shape, x.dtype, chunks=(300, 700)),
        "operand": lambda: X,
        "ndarray": lambda: np.zeros_like(x),
        "memory": lambda: fl.from_numpy(np.zeros_like(x)),
    }.get(out, lambda: tmp_path / out)()
    y = fl.compute(X * 2 + X.T[:1, :].sum() * 0, out=target)
    assert y is target or out in ("a.zarr", "b.npy")
    close(y[...], x * 2)


def test_an_ndarray_that_is_operand_and_output():
    x = np.arange(12.0).reshape(3, 4)
    y = np.arange(16.0).reshape(4, 4)
    fl.compute(fl.from_numpy(x) * 2, out=x)
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(3, 4) * 2)
    fl.compute(fl.from_numpy(y).T + fl.from_numpy(y), out=y)
    np.testing.assert_array_equal(y, np.arange(16.0).reshape(4, 4).T + np.arange(16.0).reshape(4, 4))


def test_a_later_pass_does_not_see_what_an_earlier_one_stored(tmp_path):
    a = np.arange(12.0).reshape(3, 4)
    X = fl.from_numpy(a, tmp_path / "x.zarr")
    first, second, total = fl.compute(X * 2, X.T + 1, X.sum(0), out=[X, tmp_path / "t.zarr", None])
    np.testing.assert_array_equal(first[...], 2 * a)
    np.testing.assert_array_equal(second[...], a.T + 1)
    np.testing.assert_array_equal(total, a.sum(0))
    y = a.copy()
    _, turned = fl.compute(fl.from_numpy(y) * 2, fl.from_numpy(y).T + 1, out=[y, tmp_path / "u.zarr"])
    np.testing.assert_array_equal(turned[...], a.T + 1)
    np.testing.assert_array_equal(y, 2 * a)


def test_passes_that_fail_publish_nothing(tmp_path):
    X = fl.from_numpy(np.ones((3, 4)), tmp_path / "x.zarr")
    n = fl.from_numpy(np.full((4, 3), -1), tmp_path / "n.zarr")
    with pytest.raises(fl.ShapeError, match="negative"):
        fl.compute(X * 2, 2**n, out=[X, tmp_path / "t.zarr"])
    assert float(X.sum()) == 12
    assert not (tmp_path / "t.zarr").exists()


def test_two_results_need_two_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = fl.from_numpy(np.ones((3, 4)), "x.zarr"), np.zeros((3, 4))
    for out in (
        ["s.zarr", "./s.zarr"],
        ["g.zarr", "g.zarr/a"],
        [X, "x.zarr"],
        [y, y[:]],
        [y, fl.from_numpy(y)],
    ):
        with pytest.raises(ValueError, match="compute: two results would go to"):
            fl.compute(X + 1, X + 2, out=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.zarr"]
    assert float(X.sum()) == 12
    halves = np.zeros((3, 8))  # their bounds overlap, no element does
    fl.compute(X + 1, X + 2, out=[halves[:, :4], halves[:, 4:]])
    assert (halves == [2] * 4 + [3] * 4).all()


@pytest.mark.parametrize("compute", [
    lambda X, out: fl.compute(X + 1, out=out), lambda X, out: fl.matmul(X, X, out=out),
    lambda X, out: fl.map_tiles(np.exp, X, out=out),
], ids=["compute", "matmul", "map_tiles"])  # fmt: skip
@pytest.mark.parametrize("name", ["raw.bin", "raw.npy", "plain.bin"])
def test_files_that_are_written_in_place_are_no_out(tmp_path, compute, name):
    X = fl.from_numpy(np.ones((4, 4)))
    with open(tmp_path / name, "wb") as file:
        if name == "plain.bin":
            np.save(file, np.ones((4, 4)))
        else:
            file.write(b"header!!" + np.ones((4, 4)).tobytes())
    before = (tmp_path / name).read_bytes()
    R = (
        fl.open(tmp_path / name, mode="r+") if name == "plain.bin"
        else fl.open_raw(tmp_path / name, "f8", (4, 4), offset=8, mode="r+")
    )  # fmt: skip
    with pytest.raises(fl.StorageError, match="is written in place.*assign it") as caught:
        compute(X, R)
    assert str(caught.value).count(". ") == 0
    assert (tmp_path / name).read_bytes() == before
    R[...] = fl.matmul(X, X)  # what the message says
    R.flush()
    assert (tmp_path / name).read_bytes() == before[: -16 * 8] + np.full(16, 4.0).tobytes()
    fl.compute(fl.from_numpy(np.ones((2, 4, 4))).sum(0), out=R)  # small: assigned, not exchanged
    assert (tmp_path / name).read_bytes() == before[: -16 * 8] + np.full(16, 2.0).tobytes()


def test_what_is_no_result_is_not_replaced(tmp_path):
    X = fl.from_numpy(np.random.default_rng(0).random((40, 30)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("precious")
    (tmp_path / "note.txt").write_text("precious")
    (tmp_path / "n.npy").write_text("precious")
    for name in ("mine", "note.txt", "n.npy"):
        place = tmp_path / name
        for call in (
            lambda out: fl.compute(X + 1, out=out),
            lambda out: fl.compute(X.sum(0), out=out),
            lambda out: fl.matmul(X, X.T, out=out),
            lambda out: fl.pca(X, 3, out=out),
            lambda out: fl.pca(X, 3).transform(
                fl.from_numpy(np.ones((9, 30)), tmp_path / "y.zarr", True), out=out
            ),
            lambda out: fl.map_tiles(np.exp, X, out=out),
        ):
            with pytest.raises((fl.StorageError, fl.ShapeError), match="not replaced|must be a Zarr"):
                call(place)
    assert (tmp_path / "mine" / "precious.txt").read_text() == "precious"
    assert (tmp_path / "note.txt").read_text() == (tmp_path / "n.npy").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "old.npy", np.ones(3))
    for name in ("empty", "old.npy"):
        assert fl.compute(X + 1, out=tmp_path / name).shape == X.shape
        assert fl.compute(X + 2, out=tmp_path / name).shape == X.shape


def test_groups_that_are_no_result_are_not_replaced(tmp_path):
    x = np.random.default_rng(0).random((30, 30))
    A = fl.from_numpy(x, tmp_path / "data.zarr" / "a")
    fl.from_numpy(x, tmp_path / "data.zarr" / "b")
    S = fl.from_blocks([x], tmp_path / "s.zarr")
    fl.from_numpy(x, tmp_path / "noted.zarr")
    (tmp_path / "noted.zarr" / "notes.txt").write_text("precious")
    for name in ("data.zarr", "s.zarr", "noted.zarr"):
        for call in (
            lambda out: fl.matmul(A, A, out=out), lambda out: fl.pca(S, 2, out=out),
            lambda out: fl.compute(A + 1, out=out), lambda out: fl.single_cell(S, 2, genes=9, out=out),
        ):  # fmt: skip
            with pytest.raises(FileExistsError, match="so it is not replaced"):
                call(tmp_path / name)
    np.testing.assert_array_equal(fl.open(tmp_path / "data.zarr", key="b")[...], x)
    np.testing.assert_array_equal(fl.open(tmp_path / "noted.zarr", key="array")[...], x)
    assert fl.open(tmp_path / "s.zarr").nnz == 900
    fl.pca(S, 2, out=tmp_path / "r.zarr")  # a result is: by another, and by an array
    fl.pca(S, 3, out=tmp_path / "r.zarr")
    fl.compute(A + 1, out=tmp_path / "r.zarr")
    fl.compute(A + 1, out=tmp_path / "data.zarr" / "b")
    np.testing.assert_array_equal(fl.open(tmp_path / "data.zarr", key="b")[...], x + 1)
