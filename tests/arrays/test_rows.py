"""A loop over an array: rows as ``A[i]`` gives them, each chunk read once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flagstone as fl


def bytes_read() -> int:
    """From the disk; 0 where reads go through a page cache that has them."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def packed(path, values, chunks) -> fl.Array:
    array = fl.create(path, values.shape, values.dtype.name, chunks, codec="zstd:1", overwrite=True)
    array[...] = values
    return array


@pytest.mark.parametrize("chunks", [(16, 30), (16, 7), (1, 30), (40, 30)])
@pytest.mark.parametrize("codec", ["raw", "zstd:1"])
def test_rows_are_what_indexing_gives(tmp_path, chunks, codec):
    values = np.random.default_rng(0).integers(0, 100, (40, 30)).astype("f4")
    array = fl.create(tmp_path / "a.zarr", values.shape, "f4", chunks, codec=codec)
    array[...] = values
    for looked_at, wanted in ((array, values), (array.T, values.T), (fl.open(array.path), values)):
        rows = list(looked_at)
        assert len(rows) == len(wanted)
        assert all(
            row.dtype == np.float32 and np.array_equal(row, w) for row, w in zip(rows, wanted, strict=True)
        )
    rows[0][0] = -1  # a copy: neither the file nor its neighbours see it
    assert np.array_equal(rows[1], values[1])
    assert np.array_equal(np.asarray(array), values)


def test_one_dimension_gives_numbers_and_none_is_refused(tmp_path):
    line = packed(tmp_path / "line.zarr", np.arange(9.0), (4,))
    assert list(line) == list(range(9))
    assert isinstance(next(iter(line)), np.float64)
    np.save(tmp_path / "point.npy", np.float64(3))
    with pytest.raises(TypeError, match="no dimensions"):
        iter(fl.open(tmp_path / "point.npy"))
    assert list(fl.from_numpy(np.ones((3, 2))))[2].tolist() == [1, 1]
    assert list(packed(tmp_path / "none.zarr", np.ones((0, 3)), (1, 3))) == []


def test_each_chunk_is_unpacked_once(tmp_path):
    values = np.random.default_rng(1).standard_normal((512, 512)).astype("f4")
    array = packed(tmp_path / "a.zarr", values, (128, 128))
    stored = sum(file.stat().st_size for file in (tmp_path / "a.zarr").rglob("c/**/*") if file.is_file())
    before = bytes_read()
    assert [array[i].shape for i in range(8)] == [(512,)] * 8
    if (cached := bytes_read() - before) < stored:
        pytest.skip(f"chunks came from a page cache: {cached} bytes of 2 × {stored} were read")
    for looked_at in (array, fl.open(array.path), array.T):
        before = bytes_read()
        for _, row in zip(range(256), looked_at, strict=False):
            assert row.shape == (512,)
        assert bytes_read() - before <= 1.1 * stored / 2 + 65536  # 128 times as much row by row


def test_a_loop_sees_what_is_assigned_and_committed_meanwhile(tmp_path):
    values = np.zeros((12, 4), "f4")
    array = packed(tmp_path / "a.zarr", values, (6, 4))
    other = fl.open(array.path, mode="r+")
    np.save(tmp_path / "flat.npy", values)
    flat = fl.open(tmp_path / "flat.npy", mode="r+")
    for looked_at, writer in ((array, array), (array, other), (flat, flat), (fl.open(array.path), other)):
        writer[...] = 0
        for i, row in enumerate(looked_at):
            assert (row == i).all()
            if i + 1 < 12:
                writer[i + 1] = i + 1
    with fl.transaction(array.path):
        for i, row in enumerate(array):
            assert (row == (-i if i else 0)).all()
            if i + 1 < 12:
                array[i + 1] = -(i + 1)


def test_a_limit_without_room_for_a_stripe_goes_row_by_row(tmp_path):
    values = np.random.default_rng(2).standard_normal((4096, 2048)).astype("f4")
    array = fl.create(tmp_path / "a.zarr", values.shape, "f4", (4096, 2048))
    array[...] = values
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    with fl.Runtime(memory=resident + (24 << 20)):  # a stripe takes 32 MiB
        assert all(np.array_equal(row, values[i]) for i, row in zip(range(5), array, strict=False))
