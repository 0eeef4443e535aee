"""The single-cell recipe against scanpy where it is installed, and against its formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import flagstone as fl
from flagstone.cli import cli


@pytest.fixture(scope="module")
def counts():
    """3,000 cells of three kinds, 1,500 genes, means over four orders of magnitude; some are empty."""
    rng = np.random.default_rng(0)
    means = np.geomspace(1e-3, 8, 1500)
    kinds = rng.gamma(0.6, 1 / 0.6, (3, 1500))
    rates = means * np.where(rng.random(1500) < 0.3, kinds, 1.0)[:, :]
    x = rng.poisson(rates[rng.integers(0, 3, 3000)] * rng.gamma(4, 0.25, (3000, 1))).astype("float32")
    x[17] = 0
    x[:, 5] = 0
    return sp.csr_matrix(x)


def straight(x, genes: int, k: int):
    """The same formulas on a dense matrix in memory."""
    x = x.toarray().astype(np.float64)
    totals = x.sum(1)
    scaled = x * (1e4 / np.where(totals == 0, 1, totals))[:, None]
    mean, var = scaled.mean(0), scaled.var(0, ddof=1)
    mean[mean == 0] = 1e-12
    with np.errstate(divide="ignore"):
        disp = np.log(np.where(var == 0, np.nan, var / mean))
    mean = np.log1p(mean)
    width = np.linspace(mean.min(), mean.max(), 21)
    width[0] -= (mean.max() - mean.min()) * 0.001
    which = np.digitize(mean, width, right=True)
    relative = np.full_like(disp, np.nan)
    for b in range(1, 21):
        d = disp[which == b]
        n = np.count_nonzero(~np.isnan(d))
        if n == 1:
            relative[which == b] = d / np.nansum(d)
        elif n:
            relative[which == b] = (d - np.nanmean(d)) / np.nanstd(d, ddof=1)
    chosen = np.sort(np.argsort(-np.nan_to_num(relative, nan=-np.inf), kind="stable")[:genes])
    z = np.log1p(scaled)[:, chosen]
    _, s, v = np.linalg.svd(z - z.mean(0), full_matrices=False)
    return chosen, relative, s[:k], v[:k]


def test_recipe_is_its_formulas(tmp_path, counts):
    A = fl.from_blocks([counts[:1000], counts[1000:]], tmp_path / "a.zarr")
    r = fl.single_cell(A, 10, genes=300, out=tmp_path / "r.zarr")
    chosen, relative, singular, axes = straight(counts, 300, 10)
    np.testing.assert_array_equal(r.genes, chosen)
    np.testing.assert_allclose(r.normalized_dispersions, relative, rtol=1e-4, atol=1e-4, equal_nan=True)
    np.testing.assert_allclose(r.pca.singular_values, singular, rtol=1e-5)
    agree = np.abs(np.sum(r.pca.components[:3] * axes[:3], axis=1))
    np.testing.assert_allclose(agree, 1, atol=1e-3)
    assert not (tmp_path / "b.zarr").exists()
    np.testing.assert_allclose(np.linalg.norm(np.asarray(r.pca.scores), axis=0), singular, rtol=1e-4)


def test_recipe_is_scanpys(tmp_path, counts):
    scanpy = pytest.importorskip("scanpy")
    anndata = pytest.importorskip("anndata")
    A = fl.from_blocks([counts], tmp_path / "a.zarr")
    r = fl.single_cell(A, 10, genes=300)
    data = anndata.AnnData(counts.copy())
    scanpy.pp.normalize_total(data, target_sum=1e4)
    scanpy.pp.log1p(data)
    scanpy.pp.highly_variable_genes(data, flavor="seurat", n_top_genes=300)
    np.testing.assert_array_equal(r.genes, np.flatnonzero(data.var["highly_variable"].to_numpy()))
    theirs = data.var["dispersions_norm"].to_numpy()
    np.testing.assert_allclose(r.normalized_dispersions, theirs, rtol=1e-3, atol=1e-3, equal_nan=True)
    scanpy.pp.pca(data, n_comps=10, mask_var="highly_variable")
    variance = data.uns["pca"]["variance"]
    np.testing.assert_allclose(r.pca.explained_variance, variance, rtol=1e-4)
    agree = np.abs(np.sum(np.asarray(r.pca.scores)[:, :3] * data.obsm["X_pca"][:, :3], axis=0))
    np.testing.assert_allclose(agree / np.linalg.norm(data.obsm["X_pca"][:, :3], axis=0) ** 2, 1, atol=1e-3)


def test_recipe_from_the_command_line(tmp_path, counts):
    fl.from_blocks([counts], tmp_path / "a.zarr")
    arguments = ["recipe", "single-cell", str(tmp_path / "a.zarr"), "-k", "5", "--genes", "300"]
    done = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "r.zarr")])
    assert done.exit_code == 0, done.output
    assert "300 of 1,500 genes" in done.output
    assert fl.open_pca(tmp_path / "r.zarr").components.shape == (5, 300)
    np.testing.assert_array_equal(fl.open(tmp_path / "r.zarr" / "genes")[...], straight(counts, 300, 5)[0])


@pytest.mark.parametrize(("call", "message"), [
    (lambda A: fl.single_cell(np.ones((3, 4))), "a SparseArray of cells x genes"),
    (lambda A: fl.single_cell(A, 30, genes=20), "between 1 and genes"),
    (lambda A: fl.single_cell(A.scale(factor=-1.0), 3), "must hold counts"),
])  # fmt: skip
def test_bad_input(tmp_path, counts, call, message):
    with pytest.raises(fl.ShapeError, match=message):
        call(fl.from_blocks([counts], tmp_path / "a.zarr"))
