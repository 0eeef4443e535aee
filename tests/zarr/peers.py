"""Metadata of arrays as they stand in zarr.json or .zarray; peers that fill and read what they describe."""

from __future__ import annotations

import json

import numpy as np
import pytest

import flagstone as fl

zarr = pytest.importorskip("zarr", minversion="3")
ts = pytest.importorskip("tensorstore")

SHAPE, CHUNK = (24, 20), (12, 10)


def named(name, **settings):
    return {"name": name, "configuration": settings} if settings else {"name": name}


DEFAULT = named("default")
LITTLE, BIG = named("bytes", endian="little"), named("bytes", endian="big")
CRC, GZIP = named("crc32c"), named("gzip", level=1)
ZSTD = named("zstd", level=1, checksum=False)


def turn(*order):
    return named("transpose", order=list(order))


def shards(chunk, codecs, index=(LITTLE, CRC), location="end"):
    return named(
        "sharding_indexed",
        chunk_shape=list(chunk), codecs=list(codecs), index_codecs=list(index), index_location=location,
    )  # fmt: skip


def blosc(cname="lz4", shuffle="shuffle", typesize=4, blocksize=0):
    return named("blosc", cname=cname, clevel=5, shuffle=shuffle, typesize=typesize, blocksize=blocksize)


def v3(*codecs, dtype="float32", shape=SHAPE, chunk=CHUNK, fill=0, keys=DEFAULT, **more):
    return {
        "zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": dtype,
        "chunk_grid": named("regular", chunk_shape=list(chunk)), "chunk_key_encoding": keys,
        "fill_value": fill, "codecs": list(codecs), "attributes": {}, **more,
    }  # fmt: skip


def v2(dtype="<f4", shape=SHAPE, chunk=CHUNK, fill=0, compressor=None, filters=None, order="C", **more):
    return {
        "zarr_format": 2, "shape": list(shape), "chunks": list(chunk), "dtype": dtype, "fill_value": fill,
        "compressor": compressor, "filters": filters, "order": order, **more,
    }  # fmt: skip


def put(path, metadata):
    path.mkdir()
    (path / ("zarr.json" if metadata["zarr_format"] == 3 else ".zarray")).write_text(json.dumps(metadata))


def opened_by(peer, path, metadata):
    if peer == "zarr":
        return zarr.open_array(str(path), mode="r+")
    driver = "zarr3" if metadata["zarr_format"] == 3 else "zarr"
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
    return ts.open(spec, open=True, read=True, write=True).result()


def read_by(peer, path, metadata):
    opened = opened_by(peer, path, metadata)
    return np.asarray(opened[...] if peer == "zarr" else opened.read().result())


def fill_by(peer, path, metadata, seed=0):
    """Write the first two thirds of an array, so that chunks, shards and parts of them stay absent."""
    opened = opened_by(peer, path, metadata)
    dtype = np.dtype(opened.dtype if peer == "zarr" else opened.dtype.numpy_dtype)
    shape = tuple(opened.shape)
    values = np.random.default_rng(seed).integers(0, 100, shape)
    values = (values % 2 == 0) if dtype.kind == "b" else values.astype(dtype)
    part = (slice(0, max(1, 2 * shape[0] // 3)), *(slice(None) for _ in shape[1:])) if shape else ()
    if peer == "zarr":
        opened[part] = values[part]
    else:
        opened[part].write(values[part]).result()


def check(path, truth):
    opened = fl.open(str(path))
    assert (opened.shape, opened.dtype) == (truth.shape, truth.dtype.newbyteorder("="))
    np.testing.assert_array_equal(opened[...], truth)
    if truth.ndim > 1:
        box = (slice(5, 8), slice(3, None))
        np.testing.assert_array_equal(opened[box], truth[box])
        np.testing.assert_array_equal(opened[::-5, 1], truth[::-5, 1])
