"""Shards in shards, to any depth and with indexes of every kind; and damaged ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.error_sentences import fails
from tests.support.examples import examples
from tests.zarr.peers import BIG, CRC, LITTLE, ZSTD, fill_by, named, opened_by, put, read_by, shards, turn, v3


@st.composite
def nests(draw):
    """Shards in shards, up to three deep, with transposes anywhere and indexes of every kind."""
    ndim = draw(st.integers(1, 3))
    chunk = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    codecs = [draw(st.sampled_from([LITTLE, BIG])), *draw(st.sampled_from([[], [ZSTD], [CRC]]))]
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.sampled_from([None, tuple(draw(st.permutations(range(ndim))))]))
        index = [draw(st.sampled_from([LITTLE, BIG]))] + [CRC] * draw(st.integers(0, 2))
        codecs = [shards(chunk, codecs, index, draw(st.sampled_from(["start", "end"])))]
        chunk = [n * draw(st.integers(1, 3)) for n in chunk]
        if order:  # the chunk as it is before it is turned
            codecs = [turn(*order), *codecs]
            chunk = [chunk[order.index(d)] for d in range(ndim)]
    shape = [max(1, n * draw(st.integers(1, 2)) - draw(st.integers(0, 2))) for n in chunk]
    return v3(*codecs, shape=shape, chunk=chunk, fill=draw(st.integers(0, 3)), dtype="int16")


@examples(80, HealthCheck.function_scoped_fixture)
@given(metadata=nests(), seed=st.integers(0, 9))
def test_any_nest_of_shards(tmp_path_factory, metadata, seed):
    """TensorStore alone is the judge: zarr-python compares chunks with shards before it turns them."""
    path = tmp_path_factory.mktemp("nest") / "a"
    put(path, metadata)
    fill_by("tensorstore", path, metadata, seed)
    truth = read_by("tensorstore", path, metadata)
    np.testing.assert_array_equal(fl.open(str(path))[...], truth)


# Damage -----------------------------------------------------------------------------------------------------


def _nested(tmp_path):
    """One file: an outer index at its end over eight shards, each with an index of four at its own end."""
    metadata = v3(shards((6, 5), [shards((3, 5), [LITTLE])]), chunk=(12, 20), shape=(12, 20))
    put(tmp_path / "a", metadata)
    opened_by("tensorstore", tmp_path / "a", metadata)[...].write(np.ones((12, 20), "f4")).result()
    file = tmp_path / "a" / "c" / "0" / "0"
    return file, bytearray(file.read_bytes())


def _signed(index):
    google_crc32c = pytest.importorskip("google_crc32c")
    return bytes(index) + struct.pack("<I", google_crc32c.value(bytes(index)))


def test_a_damaged_index_inside_is_said(tmp_path):
    file, text = _nested(tmp_path)
    outer = len(text) - 8 * 16 - 4
    begin, length = struct.unpack_from("<QQ", text, outer)
    text[begin + length - 7] ^= 1
    file.write_bytes(text)
    with fails(fl.FormatError, "checksum of its index", "c/0/0", "damaged"):
        fl.open(str(tmp_path / "a"))[...]
    assert not fl.check(str(tmp_path / "a")).ok


@pytest.mark.parametrize(
    ("offset", "length", "words"),
    [
        (1 << 20, 60, "lies outside the shard inside it"),
        (0, 0, "lies outside"),
        (10, 1 << 63, "lies outside"),
    ],
)
def test_an_entry_inside_that_leaves_its_shard(tmp_path, offset, length, words):
    file, text = _nested(tmp_path)
    outer = len(text) - 8 * 16 - 4
    begin, size = struct.unpack_from("<QQ", text, outer)
    index = begin + size - 2 * 16 - 4
    struct.pack_into("<QQ", text, index, offset, length)
    text[index : begin + size] = _signed(text[index : index + 32])
    file.write_bytes(text)
    with fails(fl.FormatError, words, "c/0/0"):
        fl.open(str(tmp_path / "a"))[...]


def test_a_shard_too_short_for_its_index(tmp_path):
    file, text = _nested(tmp_path)
    outer = len(text) - 8 * 16 - 4
    struct.pack_into("<Q", text, outer + 8, 20)
    text[outer:] = _signed(text[outer : outer + 8 * 16])
    file.write_bytes(text)
    with fails(fl.FormatError, "20 bytes", "fewer than its index"):
        fl.open(str(tmp_path / "a"))[...]


def test_metadata_alone_cannot_ask_for_a_large_index(tmp_path):
    """2^31 chunks in a file of three bytes of index: refused, nothing of that size is taken."""
    inner = shards((1, 1), [named("bytes")])
    metadata = v3(shards((1 << 15, 1 << 15), [inner]), dtype="uint8", chunk=(1 << 15, 1 << 16), shape=(8, 8))
    put(tmp_path / "a", metadata)
    (tmp_path / "a" / "c" / "0").mkdir(parents=True)
    index = b"\xff" * 32
    (tmp_path / "a" / "c" / "0" / "0").write_bytes(_signed(index))
    with fails(fl.FormatError, "index of 32 GiB", "smaller shards"):
        fl.open(str(tmp_path / "a"))[...]
