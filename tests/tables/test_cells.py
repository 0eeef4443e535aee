"""Matrices of cells: 10x (HDF5 and folders), loom, AnnData's names and categories; scanpy is the judge."""

from __future__ import annotations

import gzip

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import flagstone as fl
from flagstone._maintenance.info import describe

anndata = pytest.importorskip("anndata")
CELLS, GENES = 40, 25
COUNTS = sp.random(CELLS, GENES, 0.2, "csr", random_state=1)
COUNTS.data = np.ceil(COUNTS.data * 9)
BARCODES = [f"AAAC{i:04}-1" for i in range(CELLS)]
NAMES = [f"GENE{i % 24}" for i in range(GENES)]
IDS = [f"ENSG{i:08}" for i in range(GENES)]


def tenx_h5(path, version):
    """As CellRanger writes it: genes x cells by columns, 32 and 64 bits, gzip."""
    packed = {"compression": "gzip", "chunks": True}
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix" if version == 3 else "GRCh38")
        group.create_dataset("data", data=COUNTS.data.astype("i4"), **packed)
        group.create_dataset("indices", data=COUNTS.indices.astype("i8"), **packed)
        group.create_dataset("indptr", data=COUNTS.indptr.astype("i8"), **packed)
        group.create_dataset("shape", data=np.array([GENES, CELLS], "i4"))
        group.create_dataset("barcodes", data=np.array(BARCODES, "S"))
        names, ids = np.array([n.encode() for n in NAMES]), np.array(IDS, "S")
        if version == 3:
            features = group.create_group("features")
            features.create_dataset("id", data=ids)
            features.create_dataset("name", data=names)
            for name, value in (("feature_type", b"Gene Expression"), ("genome", b"GRCh38")):
                features.create_dataset(name, data=np.array([value] * GENES))
            features.create_dataset("_all_tag_keys", data=np.array([b"genome"]))
        else:
            group.create_dataset("genes", data=ids)
            group.create_dataset("gene_names", data=names)


def tenx_folder(place, version, packed):
    place.mkdir()
    files = {
        "barcodes.tsv": "".join(f"{b}\n" for b in BARCODES),
        ("features.tsv" if version == 3 else "genes.tsv"): "".join(
            f"{i}\t{n}" + ("\tGene Expression\n" if version == 3 else "\n")
            for i, n in zip(IDS, NAMES, strict=True)
        ),
    }
    scipy.io.mmwrite(place / "matrix.mtx", COUNTS.T.tocoo(), field="integer")
    files["matrix.mtx"] = (place / "matrix.mtx").read_text()
    (place / "matrix.mtx").unlink()
    for name, text in files.items():
        if packed:
            (place / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (place / name).write_text(text)


def same(opened, matrix=COUNTS):
    assert isinstance(opened, fl.SparseArray)
    assert opened.shape == matrix.shape
    assert abs(opened.to_scipy() - matrix).max() == 0
    assert opened.obs_names.tolist() == BARCODES
    assert opened.var_names.tolist() == NAMES


@pytest.mark.parametrize("version", [2, 3])
def test_10x_in_hdf5(tmp_path, version):
    scanpy = pytest.importorskip("scanpy")
    place = tmp_path / "filtered.h5"
    tenx_h5(place, version)
    opened = fl.open(place)
    same(opened)
    with pytest.warns(UserWarning, match="not unique"):
        oracle = scanpy.read_10x_h5(place)
    assert abs(oracle.X - opened.to_scipy()).max() == 0
    assert oracle.obs_names.tolist() == opened.obs_names.tolist()
    assert oracle.var_names.tolist() == opened.var_names.tolist()
    assert opened.T.obs_names.tolist() == NAMES
    mask = np.arange(CELLS) % 3 == 0
    assert opened[mask].obs_names.tolist() == np.array(BARCODES)[mask].tolist()
    assert opened[mask].var_names.tolist() == NAMES
    assert opened[:, [2, 5]].var_names.tolist() == [NAMES[2], NAMES[5]]
    ids = fl.open(place, "matrix/features/id" if version == 3 else "GRCh38/genes")
    assert ids.tolist() == IDS
    assert describe(str(place))["encoding"] == "10x"
    fl.convert(place, tmp_path / "x.h5ad")
    back = anndata.read_h5ad(tmp_path / "x.h5ad")
    assert abs(back.X - COUNTS).max() == 0
    assert back.obs_names.tolist() == BARCODES
    assert back.var_names.tolist() == NAMES
    fl.convert(place, tmp_path / "x.zarr")
    assert abs(fl.open(tmp_path / "x.zarr").to_scipy() - COUNTS).max() == 0


@pytest.mark.parametrize(("version", "packed"), [(3, True), (3, False), (2, False)])
def test_10x_folders(tmp_path, version, packed):
    place = tmp_path / "filtered_feature_bc_matrix"
    tenx_folder(place, version, packed)
    assert describe(str(place))["shape"] == [CELLS, GENES]
    assert "note" in describe(str(place))
    opened = fl.open(place)
    same(opened)
    assert "note" not in describe(str(place))
    if version == 3 and packed:
        scanpy = pytest.importorskip("scanpy")
        with pytest.warns(UserWarning, match="not unique"):
            oracle = scanpy.read_10x_mtx(place, make_unique=False)
        assert abs(oracle.X - opened.to_scipy()).max() == 0
        assert oracle.obs_names.tolist() == BARCODES
        assert oracle.var_names.tolist() == NAMES
    fl.convert(place, tmp_path / "x.h5ad")
    assert anndata.read_h5ad(tmp_path / "x.h5ad").obs_names.tolist() == BARCODES
    with pytest.raises(fl.FormatError, match="has no member 'X'"):
        fl.open(place, "X")
    with pytest.raises(fl.Error, match="a folder of 10x"):
        fl.open(place, mode="r+")


def test_10x_folders_whose_files_do_not_agree(tmp_path):
    tenx_folder(tmp_path / "x", 3, False)
    (tmp_path / "x" / "barcodes.tsv").write_text("A\nB\n")
    opened = fl.open(tmp_path / "x")
    with pytest.raises(fl.FormatError, match="barcodes.tsv' has 2 names and the matrix beside it 40"):
        _ = opened.obs_names
    assert opened.var_names.tolist() == NAMES


def test_loom(tmp_path):
    """By the published layout: genes x cells, attributes of rows and columns."""
    place = tmp_path / "x.loom"
    dense = COUNTS.toarray().astype("f4")
    with h5py.File(place, "w") as file:
        file.attrs["LOOM_SPEC_VERSION"] = "3.0.0"
        file.create_dataset("matrix", data=dense.T, chunks=(8, 8), compression="gzip")
        file.create_dataset("layers/spliced", data=2 * dense.T)
        file.create_dataset("row_attrs/Gene", data=["é" + name for name in NAMES], dtype=h5py.string_dtype())
        file.create_dataset("row_attrs/length", data=np.arange(GENES))
        file.create_dataset("col_attrs/CellID", data=BARCODES, dtype=h5py.string_dtype())
        file.create_dataset("col_attrs/cluster", data=["a", "b"] * (CELLS // 2), dtype=h5py.string_dtype())
    opened = fl.open(place)
    assert opened.shape == (CELLS, GENES)
    np.testing.assert_array_equal(opened[:], dense)
    np.testing.assert_array_equal(fl.open(place, "layers/spliced")[:3], 2 * dense[:3])
    assert opened.obs_names.tolist() == BARCODES
    assert opened.var_names.tolist() == ["é" + name for name in NAMES]
    assert fl.open(place, "col_attrs/cluster").tolist() == ["a", "b"] * (CELLS // 2)
    assert fl.open(place, "row_attrs/length")[:].tolist() == list(range(GENES))


@pytest.fixture
def annotated(tmp_path):
    rng = np.random.default_rng(2)
    obs = pd.DataFrame(index=BARCODES)
    obs["leiden"] = pd.Categorical([str(i % 3) for i in range(CELLS)])
    obs["dose"] = pd.Categorical([None if i == 4 else [0.5, 1.5][i % 2] for i in range(CELLS)])
    obs["donor"] = [f"d{i % 5}" for i in range(CELLS)]
    obs["total"] = np.asarray(COUNTS.sum(1)).ravel()
    obs["both"] = "o"
    var = pd.DataFrame(index=[f"G{i}" for i in range(GENES)])
    var["both"] = "v"
    var["biotype"] = pd.Categorical(["x", "y"] * 12 + ["x"])
    made = anndata.AnnData(COUNTS.copy(), obs=obs, var=var)
    made.layers["csc"] = COUNTS.tocsc()
    made.layers["dense"] = COUNTS.toarray()
    made.obsm["X_pca"] = rng.standard_normal((CELLS, 3))
    made.raw = made[:, :20]
    made.write_h5ad(tmp_path / "x.h5ad")
    return tmp_path / "x.h5ad", made


@pytest.mark.parametrize("key", [None, "X", "layers/csc", "layers/dense"])
def test_names_in_anndata(annotated, key):
    place, made = annotated
    opened = fl.open(place, key)
    assert opened.obs_names.tolist() == BARCODES
    assert opened.var_names.tolist() == made.var_names.tolist()
    assert opened.T.var_names.tolist() == BARCODES


def test_names_of_other_members(annotated):
    place, made = annotated
    assert fl.open(place, "obsm/X_pca").obs_names.tolist() == BARCODES
    assert fl.open(place, "obsm/X_pca").var_names is None
    assert fl.open(place, "raw/X").var_names.tolist() == made.raw.var_names.tolist()
    assert fl.open(place, "obs/total").obs_names is None
    assert fl.from_numpy(np.ones((2, 2))).obs_names is None


def test_categories_and_texts(annotated, tmp_path):
    place, made = annotated
    for key, column in (("obs/leiden", "leiden"), ("leiden", "leiden"), ("obs/donor", "donor")):
        values = fl.open(place, key)
        assert isinstance(values, np.ndarray)
        assert values.tolist() == made.obs[column].astype(str).tolist()
    assert fl.open(place, "biotype").tolist() == made.var["biotype"].tolist()
    np.testing.assert_array_equal(fl.open(place, "obs/dose"), made.obs["dose"].astype(float))
    np.testing.assert_array_equal(fl.open(place, "total")[:], made.obs["total"])
    with pytest.raises(fl.FormatError, match="'both' in obs and in var; say which: key='obs/both'"):
        fl.open(place, "both")
    with pytest.raises(fl.FormatError, match="holds texts or a category"):
        fl.convert(place, tmp_path / "y.npy", key="obs/leiden")
    assert describe(str(place), "obs/leiden")["shape"] == [CELLS]
    with pytest.raises(fl.Error, match="has no 'nothing'"):
        fl.open(place, "nothing")
