"""Boxes brought into a device's memory; on the emulated device, whose memory nobody else can read."""

import math

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from flagstone._array.basic_index import BasicIndexer
from flagstone._runtime.call import Call
from flagstone._storage import fetch as module


def brought(X, key, piece=None, monkeypatch=None):
    """What a box is in a device's memory, copied back, and the device that it went through."""
    if piece is not None:
        monkeypatch.setattr(module, "_PIECE", piece)
    box = BasicIndexer(key, X.shape)
    nbytes = max(256, -(-box.count * X.dtype.itemsize // 256) * 256)
    device = _core.open_emulated("emulated:0", nbytes)
    block = _core.DeviceBlock(device, box.shape, X.dtype.name)
    module.bring(X, Call("fetch", light=True), box, module._steps(X, box, X.dtype.itemsize), block)
    return module.DeviceArray(block, tuple(box.kept), X.dtype, 0).to_numpy(), device


KEYS = [
    ...,
    (slice(3, 90), slice(10, 71)),
    (slice(None), 5),
    (7,),
    (slice(40, 41), slice(0, 0)),
    (slice(5, 6), slice(1, 2)),
]


@pytest.mark.parametrize("piece", [1 << 24, 4096])
@pytest.mark.parametrize("kind", ["chunks", "transposed", "flat", "complex"])
def test_a_box_lies_as_it_is_indexed(kind, piece, tmp_path, monkeypatch):
    values = np.random.default_rng(1).standard_normal((100, 80))
    if kind == "complex":
        values = values + 1j * values[::-1]
    if kind == "flat":
        np.save(tmp_path / "x.npy", values)
        X = fl.open(tmp_path / "x.npy")
    else:
        X = fl.from_numpy(values, tmp_path / "x.zarr", chunks=(16, 32))
    if kind == "transposed":
        X, values = X.T, values.T
    if kind == "complex":
        X, values = X.conj(), values.conj()
    for key in KEYS:
        got, _ = brought(X, key, piece, monkeypatch)
        np.testing.assert_array_equal(got, values[key])


def test_each_byte_goes_in_once_and_no_box_is_packed(tmp_path, monkeypatch):
    values = np.arange(6 * 50 * 40, dtype=np.float32).reshape(6, 50, 40)
    X = fl.from_numpy(values, tmp_path / "x.zarr", chunks=(2, 16, 16))
    key = (slice(1, 6), slice(7, 45), slice(3, 38))
    got, device = brought(X, key, 4 * 2 * 16 * 16, monkeypatch)
    np.testing.assert_array_equal(got, values[key])
    assert device.counts.bytes_in == got.nbytes
    cells = math.prod(
        len({n // c for n in range(s.start, s.stop)}) for s, c in zip(key, (2, 16, 16), strict=True)
    )
    assert device.counts.copies_in == cells  # a chunk each, as it lies


def test_pieces_cover_a_box_once(tmp_path):
    X = fl.create(tmp_path / "x.zarr", (37, 29), "float64", chunks=(8, 8))
    box = BasicIndexer((slice(3, 36), slice(2, 29)), X.shape)
    seen = np.zeros(X.shape, int)
    for start, shape in module._pieces(box, [16, 8]):
        seen[tuple(slice(s, s + n) for s, n in zip(start, shape, strict=True))] += 1
    assert (seen[3:36, 2:29] == 1).all()
    assert seen.sum() == 33 * 27


def test_a_failed_copy_is_told(tmp_path):
    X = fl.from_numpy(np.ones((8, 8)), tmp_path / "x.zarr")
    device = _core.open_emulated("emulated:0", 512, faults=[("copy_in", 1, False)])
    block = _core.DeviceBlock(device, [8, 8], "float64")
    box = BasicIndexer(..., X.shape)
    with pytest.raises(fl.DeviceError):
        module.bring(X, Call("fetch", light=True), box, module._steps(X, box, 8), block)


def test_what_cannot_be_is_refused_in_a_sentence(tmp_path):
    X = fl.from_numpy(np.ones((8, 8)), tmp_path / "x.zarr")
    for device in ("emulated", "cpu", 3, None):
        with pytest.raises(fl.ShapeError, match="fetch: device is"):
            fl.fetch(X, device=device)
    with pytest.raises(fl.DeviceError, match=r"fetch: cuda:99 is not there: .*"):
        fl.fetch(X, device="cuda:99")
    with pytest.raises(fl.DeviceError, match="do not fit"):
        _core.DeviceBlock(_core.open_emulated("emulated:0", 256), [8, 8], "float64")


@pytest.mark.skipif(not _core.cuda_devices()[0], reason="there is no card")
def test_other_libraries_take_it(tmp_path):
    values = np.random.default_rng(2).standard_normal((300, 200)).astype(np.float32)
    X = fl.from_numpy(values, tmp_path / "x.zarr", chunks=(64, 64))
    block = fl.fetch(X, (slice(10, 290), slice(5, 190)))
    np.testing.assert_array_equal(block.to_numpy(), values[10:290, 5:190])
    torch = pytest.importorskip("torch")
    taken = torch.from_dlpack(block)
    assert str(taken.device) == "cuda:0"
    np.testing.assert_array_equal(taken.cpu().numpy(), values[10:290, 5:190])
