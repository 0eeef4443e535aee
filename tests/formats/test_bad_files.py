"""Files that are missing, foreign, cut short or damaged: one sentence that names them."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.error_sentences import fails

# Files


def test_missing_path(tmp_path):
    path = str(tmp_path / "nowhere.zarr")
    with fails(FileNotFoundError, "nowhere.zarr") as info:
        fl.open(path)
    assert isinstance(info.value, fl.Error)
    with fails(FileNotFoundError, "absent"):
        fl.matmul(np.ones((2, 2)), np.ones((2, 2)), out=str(tmp_path / "absent" / "c.zarr"))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.zarr", "x.csv", "x"])
def test_garbage_and_empty_files(tmp_path, name):
    for content in (b"", b"\x00" * 100, os.urandom(5000), b"\x93NUMPY", b"PK\x03\x04" + os.urandom(50)):
        (tmp_path / name).write_bytes(content)
        with fails((fl.FormatError, fl.StorageError), re.escape(name)):
            fl.open(str(tmp_path / name))


def test_truncated_npy(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((100, 100)))
    whole = (tmp_path / "x.npy").read_bytes()
    for length in (3, 9, 60, 127, 128, 5000, len(whole) - 1):
        (tmp_path / "x.npy").write_bytes(whole[:length])
        with fails(fl.FormatError, "x.npy"):
            fl.open(str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 4)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3, 4)}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 4)}",
        "{'descr': '<f8', 'shape': (3, 4)}",
        "{'descr': '<f8'",
    ],
)
def test_npy_headers_that_are_not_ours(tmp_path, header):
    head = header.encode().ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + b"\0" * 96
    )
    with fails(fl.FormatError, "x.npy"):
        fl.open(str(tmp_path / "x.npy"))


def zarr_files(path):
    return [f for f in path.rglob("*") if f.is_file()]


@pytest.mark.parametrize(
    ("what", "replace"),
    [
        (b'"zarr_format":3', b'"zarr_format":7'),
        (b'"float64"', b'"float63"'),
        (b'"sharding_indexed"', b'"sharding_by_magic"'),
    ],
)
def test_zarr_metadata_that_is_not_ours(tmp_path, what, replace):
    fl.from_numpy(np.ones((64, 64)), str(tmp_path / "a.zarr"))
    for file in tmp_path.joinpath("a.zarr").rglob("zarr.json"):
        packed = re.sub(rb'":\s+', b'":', file.read_bytes())
        file.write_bytes(packed.replace(what, replace))
    with fails(fl.FormatError, "zarr.json|a.zarr"):
        fl.open(str(tmp_path / "a.zarr"))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"zarr_format": 3}'])
def test_zarr_json_garbage(tmp_path, content):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "zarr.json").write_bytes(content)
    with fails(fl.FormatError, "a.zarr"):
        fl.open(str(tmp_path / "a.zarr"))


def test_a_folder_that_is_no_array(tmp_path):
    (tmp_path / "d").mkdir()
    with fails(fl.FormatError, "d"):
        fl.open(str(tmp_path / "d"))


@pytest.mark.parametrize("damage", ["truncate", "empty", "index"])
def test_damaged_shard(tmp_path, damage):
    fl.from_numpy(np.random.default_rng(0).random((600, 600)), str(tmp_path / "a.zarr"))
    shards = [
        f for f in zarr_files(tmp_path / "a.zarr") if "c" in f.relative_to(tmp_path / "a.zarr").parts[:-1]
    ]
    assert shards
    content = bytearray(shards[0].read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = content[:0]
    else:
        content[-9] ^= 0x40  # inside the index, before its checksum
    shards[0].write_bytes(bytes(content))
    with fails((fl.FormatError, fl.StorageError), "c/|shard|a.zarr"):
        fl.open(str(tmp_path / "a.zarr"))[...]


def test_damaged_operand_leaves_no_output(tmp_path):
    fl.from_numpy(np.random.default_rng(0).random((600, 600)), str(tmp_path / "a.zarr"))
    for shard in zarr_files(tmp_path / "a.zarr"):
        if shard.name != "zarr.json" and "c" in shard.relative_to(tmp_path / "a.zarr").parts[:-1]:
            shard.write_bytes(shard.read_bytes()[:-100])
    with fails((fl.FormatError, fl.StorageError), "a.zarr"):
        fl.matmul(fl.open(str(tmp_path / "a.zarr")), np.ones((600, 2)), out=str(tmp_path / "c.zarr"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]


# Sparse files


def save_npz(path, **changes):
    m = sp.random(200, 40, 0.1, format="csr", random_state=0, dtype=np.float64)
    parts = {
        "format": b"csr",
        "shape": np.array(m.shape),
        "data": m.data,
        "indices": m.indices,
        "indptr": m.indptr,
    }
    parts.update(changes)
    np.savez(path, **{k: v for k, v in parts.items() if v is not None})
    return m


@pytest.mark.parametrize("value", [40, -1, 10**6])
def test_npz_index_out_of_range(tmp_path, value):
    m = save_npz(tmp_path / "x.npz")
    indices = m.indices.copy()
    indices[77] = value
    row = int(np.searchsorted(m.indptr, 77, side="right") - 1)
    save_npz(tmp_path / "x.npz", indices=indices)
    with fails(fl.FormatError, rf"\b{row}\b", re.escape(str(value))):
        fl.open(str(tmp_path / "x.npz"))


def test_npz_pointers_that_decrease(tmp_path):
    m = save_npz(tmp_path / "x.npz")
    indptr = m.indptr.copy()
    indptr[50] = indptr[49] - 1
    save_npz(tmp_path / "x.npz", indptr=indptr)
    with fails(fl.FormatError, "x.npz|row"):
        fl.open(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("part", ["format", "shape", "data", "indices", "indptr"])
def test_npz_with_a_part_missing(tmp_path, part):
    save_npz(tmp_path / "x.npz", **{part: None})
    with fails((fl.FormatError, KeyError), "x.npz"):
        fl.open(str(tmp_path / "x.npz"))


def test_npz_parts_of_wrong_length(tmp_path):
    m = save_npz(tmp_path / "x.npz")
    for change in ({"data": m.data[:-1]}, {"indices": m.indices[:-5]}, {"indptr": m.indptr[:-1]}):
        save_npz(tmp_path / "x.npz", **change)
        with fails(fl.FormatError, "x.npz"):
            fl.open(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("compressed", [True, False])
def test_npz_truncated(tmp_path, compressed):
    m = sp.random(2000, 400, 0.1, format="csr", random_state=0)
    sp.save_npz(tmp_path / "x.npz", m, compressed=compressed)
    whole = (tmp_path / "x.npz").read_bytes()
    for length in (10, len(whole) // 3, len(whole) - 30):
        (tmp_path / "x.npz").write_bytes(whole[:length])
        with fails(fl.FormatError, "x.npz"):
            fl.open(str(tmp_path / "x.npz"))


def test_npz_flipped_bytes_in_the_middle(tmp_path):
    m = sp.random(2000, 400, 0.1, format="csr", random_state=0)
    sp.save_npz(tmp_path / "x.npz", m)
    whole = bytearray((tmp_path / "x.npz").read_bytes())
    for at in (len(whole) // 4, len(whole) // 2, 3 * len(whole) // 4):
        broken = bytearray(whole)
        for i in range(20):
            broken[at + i] ^= 0xFF
        (tmp_path / "x.npz").write_bytes(broken)
        with fails(fl.FormatError, "x.npz"):
            fl.open(str(tmp_path / "x.npz"))


def test_from_blocks_out_of_range_or_ragged():
    good = sp.random(10, 20, 0.3, format="csr", random_state=0)
    wider = sp.random(10, 25, 0.3, format="csr", random_state=0)
    with fails((fl.ShapeError, fl.FormatError), "20", "25"):
        fl.from_blocks([good, wider])
    with fails((ValueError, TypeError), "from_blocks"):
        fl.from_blocks([])
    with fails((ValueError, TypeError), "from_blocks"):
        fl.from_blocks(["text"])
