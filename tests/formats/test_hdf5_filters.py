"""Filters, layouts and types of HDF5, one by one: what h5py reads has equal values here, or is named."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._maintenance.info import describe
from tests.refusals.test_bad_input import fails

h5py = pytest.importorskip("h5py")

X = np.random.default_rng(0).integers(0, 100, (50, 40))
ENUM = h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, basetype="i1")


def plain(kind, data=X, **more):
    return lambda file: file.create_dataset("x", data=np.asarray(data).astype(kind), **more)


def lower(kind, filters=(), layout=None, early=False, precision=None):
    """What h5py's own face does not offer, through the properties of HDF5."""

    def make(file):
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if filters or early:
            properties.set_chunk((7, 9))
        for code in filters:
            properties.set_filter(code, h5py.h5z.FLAG_OPTIONAL, ())
        if layout is not None:
            properties.set_layout(layout)
        if early:
            properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        stored = kind.copy()
        if precision:
            stored.set_fields(*precision)
            stored.set_size(2)
        made = h5py.h5d.create(file.id, b"x", stored, h5py.h5s.create_simple(X.shape), dcpl=properties)
        h5py.Dataset(made)[:33] = X[:33]

    return make


def grown(file):
    file.create_dataset("x", (50, 40), "f4", maxshape=(None, None), chunks=(7, 9), compression="gzip")[
        :33
    ] = X[:33]


CHUNKED = {"chunks": (7, 9)}

#: Opened in place, and what makes it: the values that h5py reads.
IN_PLACE = {
    "gzip 1": plain("f4", compression="gzip", compression_opts=1, **CHUNKED),
    "gzip 9": plain("f4", compression="gzip", compression_opts=9, **CHUNKED),
    "gzip, shuffle, fletcher32": plain(">f8", compression="gzip", shuffle=True, fletcher32=True, **CHUNKED),
    "lzf": plain("i2", compression="lzf", **CHUNKED),
    "lzf, shuffle": plain("u8", compression="lzf", shuffle=True, **CHUNKED),
    "chunks": plain("f4", **CHUNKED),
    "contiguous": plain("f4"),
    "compact": lower(h5py.h5t.STD_I16BE, layout=h5py.h5d.COMPACT),
    "space taken early": lower(h5py.h5t.NATIVE_INT32, early=True),
    "grown": grown,
    **{f"type {kind}": plain(kind) for kind in ("f2", ">f2", "i1", ">u2", "u4", "c8", ">c16")},
    "bool": plain("bool", X > 50),
    "bool, packed": plain("bool", X > 50, compression="gzip", **CHUNKED),
    "enum": plain(ENUM, X % 3),
    "a link": lambda file: (
        file.create_dataset("y", data=X.astype("f4")),
        file.__setitem__("x", h5py.SoftLink("/y")),
    ),
}  # fmt: skip

SZIP = {"compression": "szip", "chunks": (8, 8)}

#: Unpacked by the HDF5 library into scratch.
IMPORTED = {
    "szip, nearest neighbour": plain("i4", **SZIP),
    "szip, entropy": plain("f8", compression_opts=("ec", 16), **SZIP),
    "szip, fletcher32, big-endian": plain(">f4", fletcher32=True, **SZIP),
    "scale-offset": plain("i4", scaleoffset=0, **CHUNKED),
    "scale-offset, big-endian, gzip, shuffle": plain(
        ">i8", scaleoffset=0, compression="gzip", shuffle=True, **CHUNKED
    ),
    "scale-offset of fractions": plain("f4", X / 100, scaleoffset=3, **CHUNKED),
    "n-bit": lower(h5py.h5t.IEEE_F32LE, [h5py.h5z.FILTER_NBIT]),
    "bfloat16": lower(h5py.h5t.IEEE_F32LE, precision=(15, 7, 8, 0, 7)),
}
HERE = {
    "szip": h5py.h5z.FILTER_SZIP,
    "scale-offset": h5py.h5z.FILTER_SCALEOFFSET,
    "n-bit": h5py.h5z.FILTER_NBIT,
}


def made(tmp_path, make, **how):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w", **how) as file:
        make(file)
    with h5py.File(path) as file:
        return path, np.asarray(file["x"][()])


def same(opened, truth):
    assert (opened.shape, opened.dtype) == (truth.shape, truth.dtype.newbyteorder("="))
    np.testing.assert_array_equal(opened[...], truth)
    np.testing.assert_array_equal(opened[5:9, 3:], truth[5:9, 3:])


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(tmp_path, name):
    path, truth = made(tmp_path, IN_PLACE[name])
    assert describe(path, "x")["opened"] == "in place"
    same(fl.open(path, key="x"), truth)


@pytest.mark.parametrize("name", IMPORTED)
def test_by_the_library(tmp_path, name):
    for start, code in HERE.items():
        if name.startswith(start) and not h5py.h5z.filter_avail(code):
            pytest.skip(f"this HDF5 has no {start}")
    path, truth = made(tmp_path, IMPORTED[name])
    before = describe(path, "x")
    assert (before["opened"], "problem" in before) == ("by import", False)
    assert "not imported yet" in before["note"]
    opened = fl.open(path)
    same(opened, truth)
    assert opened.path != path
    assert "note" not in describe(path, "x")
    assert fl.open(path, key="/x").path == opened.path  # imported once
    np.testing.assert_allclose(fl.sum(opened, axis=1)[...], truth.sum(1, dtype="f8"), rtol=1e-5)
    if opened.dtype.kind == "f":
        wide = truth.astype("f8")
        np.testing.assert_allclose((opened @ opened.T)[...], wide @ wide.T, rtol=1e-4)
    os.utime(path, (1, 1))
    assert fl.open(path).path != opened.path  # a changed file: imported again


@pytest.mark.parametrize("version", ["earliest", "v110", "latest"])
@pytest.mark.parametrize("block", [0, 512, 4096, 1 << 20])
def test_versions_of_the_format_and_blocks_of_the_user(tmp_path, version, block):
    make = grown if version != "latest" else plain("f4", compression="gzip", chunks=(50, 40))
    path, truth = made(tmp_path, make, libver=version, userblock_size=block)
    same(fl.open(path), truth)


def external(tmp_path):
    files = [(str(tmp_path / "raw.bin"), 0, h5py.h5f.UNLIMITED)]
    return lambda file: file.create_dataset("x", (50, 40), "f4", external=files)


def virtual(file):
    file["source"] = X.astype("f4")
    layout = h5py.VirtualLayout(X.shape, "f4")
    layout[:] = h5py.VirtualSource(file["source"])
    file.create_virtual_dataset("x", layout)


REFUSED = {
    "external": (external, "other files"),
    "virtual": (lambda _: virtual, "other files"),
    "long double": (lambda _: plain(np.longdouble), "float128"),
    "structure": (
        lambda _: lambda file: file.create_dataset("x", data=np.zeros(4, [("a", "f4")])),
        "numbers",
    ),
    "no space": (lambda _: lambda file: file.create_dataset("x", data=h5py.Empty("f4")), "numbers"),
    "lists": (lambda _: lambda file: file.create_dataset("x", (3,), h5py.vlen_dtype("i4")), "numbers"),
    "text": (lambda _: lambda file: file.create_dataset("x", data="hello"), "numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused(tmp_path, name):
    make, words = REFUSED[name]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(tmp_path)(file)
    with fails(fl.FormatError, words, "a.h5"):
        fl.open(str(tmp_path / "a.h5"), key="x")


def test_a_filter_that_the_library_lacks_is_named(tmp_path, monkeypatch):
    path, _ = made(tmp_path, IMPORTED["scale-offset"])
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    with fails(fl.FormatError, "'scaleoffset'", "hdf5plugin", "h5repack"):
        fl.open(path)


def test_damage_that_the_library_finds(tmp_path):
    path, _ = made(tmp_path, IMPORTED["scale-offset, big-endian, gzip, shuffle"])
    with h5py.File(path) as file:
        place = file["x"].id.get_chunk_info(3).byte_offset
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(b"\0" * 8)
    with fails(fl.FormatError, "damaged", "a.h5"):
        fl.open(path)
    assert "not imported yet" in describe(path, "x")["note"]  # nothing was left


def test_an_import_stays_within_the_limit(tmp_path, isolated):
    """Chunks of 8 MiB come in; one of 64 MiB is refused before it is read."""
    x = np.arange(16 << 20, dtype="i4").reshape(4096, 4096)
    for name, chunk in (("small", (512, 4096)), ("large", (4096, 4096))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=chunk, scaleoffset=0)
    code = """
    import h5py
    from tests.support.processes import peak_memory, reset_peak
    with fl.Runtime(memory=limit):
        reset_peak()
        try:
            total = int(fl.sum(fl.open(name + ".h5"))[()])
            result = [total, peak_memory()]
        except fl.BudgetError as error:
            result = [str(error), 0]
    """
    limit = 300 << 20
    total, peak = isolated(code, limit=limit, name="small")
    assert total == int(x.sum(dtype="i8"))
    assert peak <= limit
    said, _ = isolated(code, limit=limit, name="large")
    assert "pieces of /x" in said


# AnnData ----------------------------------------------------------------------------------------------------


def test_every_part_of_an_anndata_file(tmp_path, rng):
    anndata = pytest.importorskip("anndata")
    m = sp.random(60, 30, 0.2, format="csr", random_state=rng, dtype="f4")
    given = anndata.AnnData(m[:, :20].tocsc())
    given.raw = anndata.AnnData(m)
    given.layers["counts"], given.layers["dense"] = m[:, :20].tocsr(), m[:, :20].toarray()
    given.obsm["X_pca"], given.obsm["sparse"] = rng.random((60, 3)), m[:, :5].tocsr()
    given.varm["loadings"] = rng.random((20, 3))
    given.obsp["distances"] = sp.random(60, 60, 0.1, format="csr", random_state=rng)
    given.varp["graph"] = sp.random(20, 20, 0.1, format="csc", random_state=rng)
    given.uns["values"] = np.arange(7.0)
    given.write_h5ad(tmp_path / "a.h5ad", compression="gzip")
    back = anndata.read_h5ad(tmp_path / "a.h5ad")
    for key, truth in {
        "X": back.X, "raw/X": back.raw.X, "layers/counts": back.layers["counts"],
        "layers/dense": back.layers["dense"], "obsm/X_pca": back.obsm["X_pca"],
        "obsm/sparse": back.obsm["sparse"], "varm/loadings": back.varm["loadings"],
        "obsp/distances": back.obsp["distances"], "varp/graph": back.varp["graph"],
        "uns/values": back.uns["values"],
    }.items():  # fmt: skip
        opened = fl.open(str(tmp_path / "a.h5ad"), key=key)
        found = opened.to_scipy().toarray() if sp.issparse(truth) else opened[...]
        np.testing.assert_array_equal(found, truth.toarray() if sp.issparse(truth) else truth)


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_files_from_before_encodings_were_named(tmp_path, rng, form):
    """AnnData 0.6: `h5sparse_format`, tables as structures, `raw.X` beside `X`; X alone has no attributes."""
    m = sp.random(60, 30, 0.2, format="csr", random_state=rng, dtype="f4")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        for name in ("X", "raw.X"):
            if form == "dense":
                file[name] = m.toarray()
                continue
            group, parts = file.create_group(name), m.asformat(form)
            group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = form, m.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(parts, part)
        for name, n in (("obs", 60), ("var", 30), ("raw.var", 30)):
            file[name] = np.array([(str(i).encode(),) for i in range(n)], [("index", "S4")])
        file["obsm"] = np.array([(row,) for row in rng.random((60, 2))], [("X_pca", "f8", (2,))])
    for key in (None, "X", "raw.X"):
        opened = fl.open(str(tmp_path / "a.h5ad"), key=key)
        found = opened[...] if form == "dense" else opened.to_scipy().toarray()
        np.testing.assert_array_equal(found, m.toarray())
    anndata = pytest.importorskip("anndata")
    theirs = anndata.read_h5ad(tmp_path / "a.h5ad").X
    np.testing.assert_array_equal(theirs.toarray() if sp.issparse(theirs) else theirs, m.toarray())
    np.testing.assert_allclose(
        fl.pca(fl.open(str(tmp_path / "a.h5ad")), 3).singular_values,
        fl.pca(m.toarray(), 3).singular_values,
        rtol=1e-5,
    )
    with fails(fl.FormatError, "'obsm'", "numbers"):
        fl.open(str(tmp_path / "a.h5ad"), key="obsm")
