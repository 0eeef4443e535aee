"""Zarr arrays that others wrote: any chunking, every codec that zarr-python and TensorStore read, v2, v3."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.error_sentences import fails
from tests.support.examples import examples

zarr = pytest.importorskip("zarr", minversion="3")
numcodecs = pytest.importorskip("numcodecs")

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
BLOSC = [(name, shuffle) for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd") for shuffle in (0, 1, 2)]


def numbers(shape, dtype, seed=0):
    a = np.random.default_rng(seed).integers(0, 7, shape) - (0 if np.dtype(dtype).kind in "bu" else 3)
    return (a - 2j * a).astype(dtype) if np.dtype(dtype).kind == "c" else a.astype(dtype)


@st.composite
def layouts(draw):
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, 40), min_size=ndim, max_size=ndim)))
    chunks = tuple(draw(st.lists(st.integers(1, 17), min_size=ndim, max_size=ndim)))
    box = tuple(slice(*sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))) for n in shape)
    return shape, chunks, box


def v3_compressors(draw):
    from zarr import codecs

    steps = []
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["blosc", "zstd", "gzip"]))
        if kind == "blosc":
            name, shuffle = draw(st.sampled_from(BLOSC))
            steps.append(
                codecs.BloscCodec(cname=name, shuffle=["noshuffle", "shuffle", "bitshuffle"][shuffle])
            )
        elif kind == "zstd":
            steps.append(codecs.ZstdCodec(level=draw(st.integers(1, 5)), checksum=draw(st.booleans())))
        else:
            steps.append(codecs.GzipCodec(level=draw(st.integers(1, 9))))
    if draw(st.booleans()):
        steps.insert(draw(st.integers(0, len(steps))), codecs.Crc32cCodec())
    return steps


def check(path, truth, box):
    opened = fl.open(str(path))
    assert (opened.shape, opened.dtype) == (truth.shape, truth.dtype)
    np.testing.assert_array_equal(opened[...], truth)
    np.testing.assert_array_equal(opened[box], truth[box])


@examples(60, HealthCheck.function_scoped_fixture)
@given(data=st.data(), layout=layouts(), dtype=st.sampled_from(DTYPES))
def test_v3_of_any_chunking_and_codec(tmp_path, data, layout, dtype):
    from zarr import codecs

    shape, chunks, box = layout
    truth = numbers(shape, dtype)
    shards = tuple(2 * c for c in chunks) if data.draw(st.booleans()) else None
    order = data.draw(st.permutations(range(len(shape))))
    shutil.rmtree(tmp_path / "a", ignore_errors=True)
    fill = truth.flat[0] if data.draw(st.booleans()) else 0
    theirs = zarr.create_array(
        str(tmp_path / "a"), shape=shape, dtype=dtype, chunks=chunks, shards=shards, fill_value=fill,
        filters=[codecs.TransposeCodec(order=tuple(order))] if data.draw(st.booleans()) else None,
        serializer=codecs.BytesCodec(endian=data.draw(st.sampled_from(["little", "big"]))),
        compressors=v3_compressors(data.draw) or None,
    )  # fmt: skip
    theirs[...] = truth
    check(tmp_path / "a", truth, box)


@examples(60, HealthCheck.function_scoped_fixture)
@given(data=st.data(), layout=layouts(), dtype=st.sampled_from(DTYPES))
def test_v2_of_any_chunking_and_codec(tmp_path, data, layout, dtype):
    shape, chunks, box = layout
    truth = numbers(shape, dtype)
    name, shuffle = data.draw(st.sampled_from(BLOSC))
    compressor = data.draw(st.sampled_from([
        None, numcodecs.Zlib(3), numcodecs.GZip(1), numcodecs.Zstd(2),
        numcodecs.Blosc(cname=name, clevel=5, shuffle=shuffle),
    ]))  # fmt: skip
    kind = np.dtype(dtype).newbyteorder(data.draw(st.sampled_from("<>")))
    filters = [numcodecs.Shuffle(kind.itemsize)] if data.draw(st.booleans()) else None
    shutil.rmtree(tmp_path / "a", ignore_errors=True)
    theirs = zarr.create_array(
        str(tmp_path / "a"), shape=shape, dtype=kind, chunks=chunks, zarr_format=2, compressors=compressor,
        filters=filters, order=data.draw(st.sampled_from("CF")), fill_value=truth.flat[-1],
        chunk_key_encoding={"name": "v2", "separator": data.draw(st.sampled_from("./"))},
    )  # fmt: skip
    part = tuple(slice(0, max(1, n // 2)) for n in shape)
    theirs[part] = truth[part]
    expected = np.full(shape, truth.flat[-1])
    expected[part] = truth[part]
    check(tmp_path / "a", expected, box)


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_what_tensorstore_writes(tmp_path, driver):
    ts = pytest.importorskip("tensorstore")
    truth = numbers((300, 200), "float32")
    metadata = {
        "zarr": {"shape": [300, 200], "chunks": [64, 70], "dtype": ">f4", "order": "F",
                 "compressor": {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2}},
        "zarr3": {"shape": [300, 200], "data_type": "float32",
                  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [128, 160]}},
                  "codecs": [{"name": "sharding_indexed", "configuration": {
                      "chunk_shape": [32, 40],
                      "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}},
                                 {"name": "bytes", "configuration": {"endian": "big"}},
                                 {"name": "zstd", "configuration": {"level": 1}}, {"name": "crc32c"}]}}]},
    }[driver]  # fmt: skip
    spec = {
        "driver": driver,
        "kvstore": {"driver": "file", "path": str(tmp_path / "a")},
        "metadata": metadata,
    }
    ts.open(spec, create=True).result().write(truth).result()
    check(tmp_path / "a", truth, np.s_[10:177, 33:190])


def test_arrays_inside_a_v2_group(tmp_path):
    group = zarr.open_group(str(tmp_path / "g"), mode="w", zarr_format=2)
    group.attrs["note"] = "x"
    first = group.create_array("a", shape=(5, 4), dtype="i4", chunks=(2, 2))
    first[...] = np.arange(20).reshape(5, 4)
    group.create_group("inner").create_array("b", shape=(3,), dtype="f8")[...] = [1, 2, 3]
    np.testing.assert_array_equal(fl.open(str(tmp_path / "g"), key="a")[...], np.arange(20).reshape(5, 4))
    np.testing.assert_array_equal(fl.open(str(tmp_path / "g"), key="inner/b")[...], [1, 2, 3])
    with fails(fl.FormatError, "holds a, inner/", "key="):
        fl.open(str(tmp_path / "g"))


@pytest.mark.parametrize("version", [2, 3])
def test_routines_take_them(tmp_path, rng, version):
    a, b = rng.random((400, 300)).astype("f4"), rng.random((300, 250)).astype("f4")
    for name, x in (("a", a), ("b", b)):
        zarr.create_array(
            str(tmp_path / name), shape=x.shape, dtype="f4", chunks=(70, 90), zarr_format=version
        )[...] = x
    left, right = fl.open(str(tmp_path / "a")), fl.open(str(tmp_path / "b"))
    np.testing.assert_allclose((left @ right)[...], a @ b, rtol=1e-5)
    ours, plain = fl.pca(left, 5), fl.pca(a, 5)
    np.testing.assert_allclose(ours.singular_values, plain.singular_values, rtol=1e-6)


def test_statements_about_what_is_not_read(tmp_path):
    zarr.create_array(
        str(tmp_path / "lzma"), shape=(4,), dtype="i4", zarr_format=2, compressors=numcodecs.LZMA()
    )
    with fails(fl.FormatError, "lzma", "zstd"):
        fl.open(str(tmp_path / "lzma"))
    zarr.create_array(
        str(tmp_path / "delta"), shape=(4,), dtype="i4", zarr_format=2, filters=[numcodecs.Delta("i4")]
    )
    with fails(fl.FormatError, "filter 'delta'"):
        fl.open(str(tmp_path / "delta"))


@pytest.mark.parametrize("compressor", ["zstd", "gzip", "blosc"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_damaged_chunks_are_said(tmp_path, compressor, damage):
    from zarr import codecs

    made = {"zstd": codecs.ZstdCodec(checksum=True), "gzip": codecs.GzipCodec(), "blosc": codecs.BloscCodec()}
    theirs = zarr.create_array(
        str(tmp_path / "a"), shape=(64, 64), dtype="f8", chunks=(32, 64),
        compressors=[made[compressor], codecs.Crc32cCodec()],
    )  # fmt: skip
    theirs[...] = np.random.default_rng(0).random((64, 64))
    file = tmp_path / "a" / "c" / "1" / "0"
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 1
    file.write_bytes({"flip": bytes(text), "cut": bytes(text[:100]), "empty": b""}[damage])
    opened = fl.open(str(tmp_path / "a"))
    opened[:32]
    with fails(fl.FormatError, "damaged", "/a"):
        opened[...]


def test_random_damage_never_crashes(tmp_path):
    from zarr import codecs

    random = np.random.default_rng(3)
    theirs = zarr.create_array(
        str(tmp_path / "a"), shape=(50, 50), dtype="i4", chunks=(50, 50),
        compressors=[codecs.ZstdCodec(), codecs.GzipCodec()],
    )  # fmt: skip
    theirs[...] = random.integers(0, 9, (50, 50))
    file = tmp_path / "a" / "c" / "0" / "0"
    good = file.read_bytes()
    said = []
    for _ in range(200):
        text = bytearray(good)
        for at in random.integers(0, len(text), 3):
            text[at] = random.integers(0, 256)
        file.write_bytes(text)
        try:
            fl.open(str(tmp_path / "a"))[...]
        except fl.Error as error:
            said.append(str(error))
    assert said
    assert not any("\n" in text for text in said)


def test_metadata_cannot_ask_for_any_amount_of_memory(tmp_path):
    """Chunks of many TiB, a chunk file far longer than its chunk: refused before memory is taken."""
    zarr.create_array(
        str(tmp_path / "a"), shape=(4, 4), dtype="f8", chunks=(4, 4), zarr_format=2, fill_value=0
    )[...] = np.ones((4, 4))
    file = tmp_path / "a" / ".zarray"
    text = file.read_text()
    about = json.loads(text)
    file.write_text(json.dumps({**about, "chunks": [1 << 20, 1 << 20]}))
    for use in (lambda a: a[...], lambda a: fl.pca(a, 2)):
        with fails(fl.BudgetError, "needs at least"):
            use(fl.open(str(tmp_path / "a")))
    file.write_text(json.dumps({**about, "chunks": [1 << 40, 1 << 40]}))
    with fails(fl.FormatError, "larger than"):
        fl.open(str(tmp_path / "a"))
    file.write_text(text)
    with open(tmp_path / "a" / "0.0", "r+b") as chunk:
        chunk.truncate(1 << 40)
    with fails(fl.FormatError, "1 TiB|1024 GiB", "damaged"):
        fl.open(str(tmp_path / "a"))[...]


def test_slices_of_large_chunks_stay_within_the_limit(tmp_path, isolated):
    x = np.random.default_rng(0).random((2048, 4096))
    zarr.create_array(str(tmp_path / "a"), shape=x.shape, dtype="f8", chunks=x.shape)[...] = x
    code = """
    from tests.support.processes import peak_memory, reset_peak
    X = fl.open("a")
    X[:1]
    reset_peak()
    with fl.Runtime(memory=limit):
        try:
            X[:4]
            result = ["ran", peak_memory()]
        except fl.BudgetError as error:
            result = ["refused", error.least]
    """
    said, least = isolated(code, limit=100 << 20)
    assert said == "refused"
    said, peak = isolated(code, limit=least + (4 << 20))
    assert said == "ran"
    assert peak <= least + (4 << 20)


def test_staging_is_part_of_the_limit(tmp_path, isolated):
    """A chunk of 64 MiB and its packed bytes are charged: refused or kept, never beyond the limit."""
    x = np.random.default_rng(0).random((2048, 4096))
    x[:, :3] *= [4e3, 2e3, 1e3]  # components that few passes find
    zarr.create_array(str(tmp_path / "a"), shape=x.shape, dtype="f8", chunks=x.shape)[...] = x
    code = """
    from tests.support.processes import peak_memory, reset_peak
    X = fl.open("a")
    fl.matmul(np.ones((8, 64)), np.ones((64, 8)))
    reset_peak()
    try:
        fl.pca(X, 3, memory=limit, method="krylov")
        result = ["ran", peak_memory()]
    except fl.BudgetError as error:
        result = ["refused", error.least]
    """
    said, least = isolated(code, limit=160 << 20)
    assert said == "refused"
    said, peak = isolated(code, limit=int(least * 1.02) + (4 << 20))
    assert said == "ran"
    assert peak <= least * 1.02 + (4 << 20)
