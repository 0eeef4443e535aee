"""Codec by codec: what zarr-python and TensorStore both read has equal values here, the rest is named.

Every case is the metadata of an array, as it stands in zarr.json or .zarray. A peer fills it, both peers and
Flagstone read it. The table of docs/guide/formats.md says the same in words.
"""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone._maintenance.info import describe
from tests.support.error_sentences import fails
from tests.zarr.peers import (
    BIG,
    CHUNK,
    CRC,
    GZIP,
    LITTLE,
    ZSTD,
    blosc,
    check,
    fill_by,
    named,
    put,
    read_by,
    shards,
    turn,
    v2,
    v3,
)

zarr = pytest.importorskip("zarr", minversion="3")

pytestmark = pytest.mark.filterwarnings("ignore")  # zarr-python warns of every codec that v3 has no text for

BLOSC = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")

#: What both peers read.
READ = {
    "little": v3(LITTLE),
    "big": v3(BIG),
    "zstd": v3(LITTLE, ZSTD),
    "zstd with a checksum": v3(LITTLE, named("zstd", level=3, checksum=True)),
    "zstd, negative level": v3(LITTLE, named("zstd", level=-5, checksum=False)),
    **{f"gzip {level}": v3(LITTLE, named("gzip", level=level)) for level in (0, 1, 9)},
    **{f"blosc {name} {shuffle}": v3(LITTLE, blosc(name, shuffle)) for name in BLOSC for shuffle in SHUFFLES},
    "blosc of bytes": v3(LITTLE, blosc(typesize=1)),
    "blosc of small blocks": v3(LITTLE, blosc(blocksize=64)),
    "crc32c first": v3(LITTLE, CRC, ZSTD),
    "crc32c between": v3(BIG, GZIP, CRC, ZSTD),
    "crc32c twice": v3(LITTLE, CRC, CRC),
    "transpose": v3(turn(1, 0), BIG, ZSTD),
    "transposes": v3(turn(1, 0), turn(1, 0), LITTLE),
    "transposes of three": v3(turn(2, 0, 1), turn(0, 2, 1), LITTLE, shape=(9, 8, 7), chunk=(4, 5, 3)),
    "shards": v3(shards((6, 5), [LITTLE, ZSTD])),
    "shards, index first": v3(shards((6, 5), [LITTLE], location="start")),
    "shards, big-endian index": v3(shards((6, 5), [LITTLE], [BIG, CRC])),
    "shards, index unchecked": v3(shards((6, 5), [LITTLE], [BIG])),
    "shards, index checked twice": v3(shards((6, 5), [LITTLE], [LITTLE, CRC, CRC])),
    "shards, index transposed": v3(shards((6, 5), [LITTLE], [turn(2, 0, 1), BIG, CRC], "start")),
    "transpose of shards": v3(turn(1, 0), shards((5, 5), [turn(1, 0), LITTLE, ZSTD]), chunk=(10, 20)),
    "transpose of three of shards": v3(
        turn(2, 0, 1), shards((2, 2, 2), [turn(1, 2, 0), BIG]), shape=(9, 8, 10), chunk=(4, 8, 6)
    ),
    "shards in shards": v3(shards((6, 10), [shards((3, 5), [LITTLE])])),
    "shards in shards, packed": v3(shards((6, 10), [shards((3, 5), [BIG, ZSTD, CRC])])),
    "shards in shards, indexes of all kinds": v3(
        shards((6, 10), [shards((3, 5), [LITTLE], [BIG])], [turn(1, 2, 0), LITTLE, CRC, CRC], "start")
    ),
    "shards three deep": v3(shards((12, 5), [shards((6, 5), [shards((3, 1), [LITTLE])], location="start")])),
    "shards in shards, a transpose around each": v3(
        turn(1, 0), shards((10, 10), [turn(1, 0), shards((5, 5), [turn(1, 0), LITTLE])]), chunk=(10, 20)
    ),
    **{
        f"v3 {dtype}": v3(LITTLE, dtype=dtype, fill=False if dtype == "bool" else 1)
        for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    **{f"v3 {dtype}": v3(BIG, dtype=dtype, fill=0.1) for dtype in ("float16", "float32", "float64")},
    "v3 complex64": v3(LITTLE, dtype="complex64", fill=["NaN", 1.5]),
    "v3 complex128": v3(BIG, dtype="complex128", fill=["0x7ff8000000000001", "-Infinity"]),
    **{
        f"fill {fill}": v3(LITTLE, fill=fill)
        for fill in ("NaN", "Infinity", "-Infinity", "0x7fc00001", 7, 1e300)
    },
    "fill of half, subnormal": v3(LITTLE, dtype="float16", fill=3e-6),
    "fill of half, bits": v3(LITTLE, dtype="float16", fill="0x7e01"),
    "fill 3.0 of integers": v3(LITTLE, dtype="int32", fill=3.0),
    "fill -1": v3(LITTLE, dtype="int8", fill=-128),
    "fill of 64 bits": v3(LITTLE, dtype="uint64", fill=2**64 - 1),
    "keys of v2": v3(LITTLE, keys=named("v2")),
    "keys of v2 with /": v3(LITTLE, keys=named("v2", separator="/")),
    "keys with .": v3(LITTLE, keys=named("default", separator=".")),
    "no dimension": v3(LITTLE, shape=(), chunk=()),
    "no dimension, keys of v2": v3(LITTLE, shape=(), chunk=(), keys=named("v2")),
    "names of dimensions": v3(LITTLE, dimension_names=["a", None]),
    **{f"v2 {dtype}": v2(dtype) for dtype in ("|i1", "<i2", ">i4", "<u8", "<f2", ">f8")},
    "v2 |b1": v2("|b1", fill=True),
    **{f"v2 {dtype}": v2(dtype, fill=[1.0, "NaN"]) for dtype in ("<c8", ">c16")},
    "v2 zlib": v2(compressor={"id": "zlib", "level": 1}),
    "v2 gzip": v2(compressor={"id": "gzip", "level": 1}),
    "v2 zstd": v2(compressor={"id": "zstd", "level": 1}),
    **{f"v2 bz2 {level}": v2(compressor={"id": "bz2", "level": level}) for level in (1, 9)},
    **{
        f"v2 blosc {name} {shuffle}": v2(
            compressor={"id": "blosc", "cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
        )
        for name in BLOSC
        for shuffle in (-1, 0, 1, 2)
    },
    "v2 columns": v2(order="F"),
    "v2 columns, three": v2(
        shape=(9, 8, 7), chunk=(4, 5, 3), order="F", compressor={"id": "bz2", "level": 1}
    ),
    "v2 keys with /": v2(dimension_separator="/"),
    **{f"v2 fill {fill}": v2(fill=fill) for fill in ("NaN", "Infinity", "-Infinity", None, 1.5, "2.5")},
    "v2 fill 1e3 of integers": v2("<i4", fill=1e3),
    "v2 fill of half": v2("<f2", fill=0.1),
    "v2 no dimension": v2(shape=(), chunk=()),
}  # fmt: skip


def nine_deep():
    codecs = [LITTLE]
    for _ in range(9):
        codecs = [shards(CHUNK, codecs)]
    return codecs[0]


#: What one peer reads, or none, and the words that must be said of it.
REFUSED = {
    "numcodecs": (v3(LITTLE, named("numcodecs.bz2", level=1)), "'numcodecs.bz2'"),
    "numcodecs filter": (v3(named("numcodecs.delta", dtype="<f4"), LITTLE), "'numcodecs.delta'"),
    "crc32c behind shards": (v3(shards((6, 5), [LITTLE]), CRC), "'crc32c' behind 'sharding_indexed'"),
    "zstd between shards": (v3(shards((6, 10), [shards((3, 5), [LITTLE]), ZSTD])), "'zstd' behind"),
    "shards behind bytes": (v3(LITTLE, shards((6, 5), [LITTLE])), "'sharding_indexed' is not read there"),
    "index packed": (v3(shards((6, 5), [LITTLE], [LITTLE, GZIP])), "index codec 'gzip'"),
    "no bytes": (v3(turn(1, 0)), "'bytes' is missing"),
    "nine levels": (v3(nine_deep()), "eight deep"),
    "uneven shards": (v3(shards((6, 10), [shards((4, 5), [LITTLE])])), "no multiple"),
    "bfloat16": (v3(LITTLE, dtype="bfloat16"), "'bfloat16'"),
    "a type with settings": (v3(LITTLE, dtype=named("numpy.void", unit="s")), "data_type"),
    "transformers": (v3(LITTLE, storage_transformers=[named("x")]), "storage_transformers"),
    "another grid": ({**v3(LITTLE), "chunk_grid": named("rectangular", chunk_shape=[1])}, "chunk_grid"),
    "fill 256 of a byte": (v3(LITTLE, dtype="uint8", fill=256), "fill_value 256"),
    "fill -1 without sign": (v3(LITTLE, dtype="uint64", fill=-1), "fill_value -1"),
    "fill 2^63 with sign": (v3(LITTLE, dtype="int64", fill=2**63), "fill_value 9223372036854775808"),
    "fill 3.5 of integers": (v3(LITTLE, dtype="int32", fill=3.5), "fill_value 3.5"),
    **{f"v2 {name}": (v2(compressor={"id": name}), f"compressor '{name}'") for name in ("lz4", "lzma")},
    **{
        f"v2 {name}": (v2(filters=[{"id": name, "dtype": "<f4"}]), f"filter '{name}'")
        for name in ("delta", "fixedscaleoffset", "quantize", "bitround", "packbits", "crc32")
    },
    "v2 structure": (v2([["a", "<f4"]]), "structure"),
    "v2 text": (v2("<U4", fill=""), "'<U4'"),
}  # fmt: skip


@pytest.mark.parametrize("peer", ["zarr", "tensorstore"])
@pytest.mark.parametrize("name", READ)
def test_what_both_peers_read_is_read(tmp_path, name, peer):
    metadata, path = READ[name], tmp_path / "a"
    put(path, metadata)
    fill_by(peer, path, metadata)
    truth = read_by("zarr", path, metadata)
    np.testing.assert_array_equal(read_by("tensorstore", path, metadata), truth)  # else the case is none
    check(path, truth)


@pytest.mark.parametrize("name", ["snappy", "filters"])
def test_what_one_peer_writes_and_costs_nothing_is_read(tmp_path, name):
    peer, metadata = {
        "snappy": ("tensorstore", v3(LITTLE, blosc("snappy"))),
        "filters": ("zarr", v2(filters=[{"id": "shuffle", "elementsize": 4}])),
    }[name]
    put(tmp_path / "a", metadata)
    fill_by(peer, tmp_path / "a", metadata)
    check(tmp_path / "a", read_by(peer, tmp_path / "a", metadata))


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_by_name(tmp_path, name):
    metadata, words = REFUSED[name]
    put(tmp_path / "a", metadata)
    with pytest.raises(fl.FormatError) as caught:
        fl.open(str(tmp_path / "a"))
    assert words in str(caught.value)
    assert "/a/" in str(caught.value)
    assert "\n" not in str(caught.value)
    if metadata.get("data_type") == "bfloat16" or name == "nine levels":
        return  # TensorStore's alone
    with pytest.raises(Exception):
        read_by("tensorstore", tmp_path / "a", metadata)


FOREIGN = ["v2 bz2 9", "shards in shards, packed", "transpose of shards", "shards, big-endian index"]


@pytest.mark.parametrize("name", FOREIGN)
def test_routines_take_them(tmp_path, name):
    path = tmp_path / "a"
    put(path, READ[name])
    fill_by("tensorstore", path, READ[name])
    x = fl.open(str(path))
    truth = read_by("zarr", path, READ[name]).astype("f8")
    np.testing.assert_allclose((x @ x.T)[...], truth @ truth.T, rtol=1e-5)
    np.testing.assert_allclose(fl.pca(x, 3).singular_values, fl.pca(truth, 3).singular_values, rtol=1e-5)
    np.testing.assert_allclose(fl.sum(fl.log1p(x), axis=0)[...], np.log1p(truth).sum(0), rtol=1e-5)
    fl.pack(str(path), str(tmp_path / "b"))  # becomes ours
    check(tmp_path / "b", truth.astype("f4"))
    assert fl.check(str(path)).ok
    with fails(fl.FormatError, "cannot be opened for writing", "copy"):
        fl.open(str(path), mode="r+")


# What people want to know, and groups -----------------------------------------------------------------------


def test_info_tells_of_every_level(tmp_path):
    put(tmp_path / "a", READ["shards in shards, packed"])
    facts = describe(str(tmp_path / "a"))
    assert facts["shards"] == [[12, 10], [6, 10]]
    assert facts["codecs"] == "bytes (big-endian) + zstd + crc32c"


@pytest.mark.parametrize("version", [2, 3])
def test_groups_with_consolidated_metadata(tmp_path, version):
    root = zarr.open_group(str(tmp_path / "g"), mode="w", zarr_format=version)
    root.create_array("x", shape=(5, 4), dtype="f8", chunks=(2, 2))[...] = np.arange(20).reshape(5, 4)
    root.create_group("in").create_array("y", shape=(3,), dtype="i4")[...] = [1, 2, 3]
    zarr.consolidate_metadata(str(tmp_path / "g"), zarr_format=version)
    np.testing.assert_array_equal(fl.open(str(tmp_path / "g"), key="x")[...], np.arange(20).reshape(5, 4))
    np.testing.assert_array_equal(fl.open(str(tmp_path / "g"), key="in/y")[...], [1, 2, 3])


@pytest.mark.parametrize(
    "metadata", [v3(LITTLE, shape=(0, 20)), v3(shards((6, 5), [LITTLE]), shape=(0, 20)), v2(shape=(0, 4))]
)
def test_arrays_without_elements(tmp_path, metadata):
    put(tmp_path / "a", metadata)
    truth = read_by("zarr", tmp_path / "a", metadata)
    opened = fl.open(str(tmp_path / "a"))
    assert opened[...].shape == truth.shape == opened.shape
