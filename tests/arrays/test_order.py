"""Chunks whose first index is the fastest (Zarr's transpose codec): written, changed, read by peers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.error_sentences import fails
from tests.support.examples import examples
from tests.support.strategies import DTYPES, shapes, stored_as, values


def order_on_disk(path) -> str:
    """What zarr.json says."""
    about = json.loads((path / "array" / "zarr.json").read_text())
    inner = about["codecs"][0]["configuration"]["codecs"]
    return "F" if inner[0]["name"] == "transpose" else "C"


def peers_see(path, x) -> None:
    assert np.array_equal(zarr.open(str(path), mode="r")["array"][...], x)
    store = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/array"}}
    assert np.array_equal(tensorstore.open(store).result().read().result(), x)


@examples(25)
@given(shapes(), st.sampled_from(DTYPES), st.sampled_from(["raw", "zstd:1", "blosc-lz4"]), st.integers(0, 99))
def test_rechunked_there_and_back(tmp_path_factory, given_shapes, dtype, codec, seed):
    shape, chunks, others = given_shapes
    folder = tmp_path_factory.mktemp("order")
    x = values(shape, dtype, seed)
    a = stored_as(x, folder / "a.zarr", chunks)
    b = fl.rechunk(a, others, out=folder / "b.zarr", order="F", codec=codec)
    assert np.array_equal(b[...], x)
    if x.size:
        assert order_on_disk(folder / "b.zarr") == ("F" if x.ndim > 1 else "C")
        peers_see(folder / "b.zarr", x)
    assert fl.check(folder / "b.zarr").ok
    c = fl.rechunk(b, chunks, out=folder / "c.zarr")  # keeps it
    assert c._core.order == b._core.order
    assert np.array_equal(c[...], x)
    d = fl.rechunk(c, others, out=folder / "d.zarr", order="C")
    assert d._core.order == "C"
    assert np.array_equal(d[...], x)


@pytest.fixture
def columns(tmp_path):
    """An array in columns, and its elements."""
    x = values((300, 200), "float64")
    a = fl.rechunk(fl.from_numpy(x), (64, 96), out=tmp_path / "a.zarr", order="F")
    assert a._core.order == "F"
    return a, x


def test_every_way_of_writing(columns, tmp_path):
    a, x = columns
    a[10:200, 5:150] = 7.0
    x[10:200, 5:150] = 7.0
    with fl.transaction(tmp_path / "a.zarr"):
        for i in range(0, 300, 7):
            a[i] = x[i] = float(i)
    a[::3, [5, 1, 9]] = 2.0
    x[::3, [5, 1, 9]] = 2.0
    a[...] = np.sqrt(np.abs(a) + 1)
    x = np.sqrt(np.abs(x) + 1)
    assert np.array_equal(a[...], x)

    def double(tile):
        tile *= 2

    with fl.graph() as g:
        for i in range(a.tiles[0]):
            for j in range(a.tiles[1]):
                g.add(double, fl.update(a.tiles[i, j]))
    x = x * 2
    peers_see(tmp_path / "a.zarr", x)
    a.resize((330, 170))
    a[300:, :] = 5.0
    assert np.array_equal(a[...], np.vstack([x[:, :170], np.full((30, 170), 5.0)]))
    assert fl.check(tmp_path / "a.zarr").ok


def test_what_replaces_it_keeps_its_order(columns, tmp_path):
    a, x = columns
    fl.compute(a * 2, out=a)
    fl.compute(a / 2 + 1, out=a)
    assert order_on_disk(tmp_path / "a.zarr") == "F"
    peers_see(tmp_path / "a.zarr", x * 2 / 2 + 1)
    fl.map_tiles(np.negative, fl.from_numpy(x), out=a)
    assert np.array_equal(a[...], -x)
    assert fl.transpose(a, out=tmp_path / "t.zarr", order="F")._core.order == "F"
    assert np.array_equal(fl.open(tmp_path / "t.zarr")[...], -x.T)


@pytest.mark.parametrize("chunks", [(64, 64), (200, 200)])
@pytest.mark.parametrize("codec", ["raw", "zstd:1"])
def test_products(tmp_path, chunks, codec):
    x, y = (values((200, 200), "complex128", seed) for seed in (1, 2))
    a, b = (
        fl.rechunk(v, chunks, out=tmp_path / f"{name}.zarr", order="F", codec=codec)
        for name, v in (("a", x), ("b", y))
    )
    for left, right, expected in (
        (a, b, x @ y), (a.conj(), b.T, x.conj() @ y.T), (a.conj().T, b, x.conj().T @ y),
        (a.T, b.conj(), x.T @ y.conj()), (a.conj().T, b.conj().T, x.conj().T @ y.conj().T),
    ):  # fmt: skip
        np.testing.assert_allclose(fl.matmul(left, right)[...], expected, rtol=1e-11, atol=1e-11)
    c = fl.matmul(a.conj().T, b, out=a)
    assert c._core.order == "C"
    np.testing.assert_allclose(c[...], x.conj().T @ y, rtol=1e-11, atol=1e-11)


def test_a_packed_copy(columns, tmp_path):
    _, x = columns
    fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr", checksum="inner")
    peers_see(tmp_path / "p.zarr", x)
    fl.pack(tmp_path / "a.zarr", tmp_path / "q.zarr", codec="raw")
    peers_see(tmp_path / "q.zarr", x)


def test_plan_is_the_run(columns, isolated):
    done = isolated(
        """
        A = fl.open("a.zarr")
        plan = fl.rechunk.plan(A, (100, 50), out="b.zarr", order="F")
        fl.rechunk(A, (100, 50), out="b.zarr", order="F")
        s = fl.stats()
        result = [plan.bytes_read, s.bytes_read, plan.bytes_written, s.bytes_written]
        """
    )
    assert done[0] == done[1]
    assert done[2] == done[3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "A"}, "rechunk: order is 'A'; choose 'C' or 'F'."),
        ({"order": "F", "out": "x.npy"}, "rechunk: order is 'F', and a .npy file has no chunks"),
        ({"order": "F", "out": np.empty((300, 200))}, "rechunk: order is 'F', and a result in memory has no"),
    ],
)
def test_bad_orders(columns, options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with fails(ValueError, words):
        fl.rechunk(columns[0], (50, 50), **options)
