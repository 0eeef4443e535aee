"""The single-cell recipe against scanpy where it is installed, and against its formulas in NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli
from flagstone._recipes.dispersion import choose_genes


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
    x[:, 6] = x[:, 900]  # equal dispersions
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
    known = np.sort(relative[~np.isnan(relative)])[::-1]
    chosen = np.flatnonzero(relative >= known[min(genes, len(known)) - 1])
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


def scanpys(x, genes: int, k: int):
    """Genes, normalised dispersions, variances and scores as scanpy finds them."""
    scanpy, anndata = pytest.importorskip("scanpy"), pytest.importorskip("anndata")
    data = anndata.AnnData(x.astype("float32"))
    scanpy.pp.normalize_total(data, target_sum=1e4)
    scanpy.pp.log1p(data)
    scanpy.pp.highly_variable_genes(data, flavor="seurat", n_top_genes=genes)
    scanpy.pp.pca(data, n_comps=k, mask_var="highly_variable")
    chosen = np.flatnonzero(data.var["highly_variable"].to_numpy())
    return chosen, data.var["dispersions_norm"].to_numpy(), data.uns["pca"]["variance"], data.obsm["X_pca"]


def agree_with_scanpy(r, x, genes, k):
    chosen, relative, variance, scores = scanpys(x, genes, k)
    np.testing.assert_array_equal(r.genes, chosen)
    np.testing.assert_allclose(r.normalized_dispersions, relative, rtol=1e-3, atol=1e-3, equal_nan=True)
    np.testing.assert_allclose(r.pca.explained_variance, variance, rtol=1e-4)
    agree = np.abs(np.sum(np.asarray(r.pca.scores)[:, :3] * scores[:, :3], axis=0))
    np.testing.assert_allclose(agree / np.linalg.norm(scores[:, :3], axis=0) ** 2, 1, atol=1e-3)


def test_recipe_is_scanpys(tmp_path, counts):
    A = fl.from_blocks([counts], tmp_path / "a.zarr")
    agree_with_scanpy(fl.single_cell(A, 10, genes=300), counts, 300, 10)


@pytest.mark.parametrize(
    ("name", "genes"), [("ecrtm-20NG/train_bow.npz", 1000), ("multilabel/tmc2007-500.train.X.npz", 200)]
)
def test_recipe_on_real_counts_is_scanpys(shared_data, name, genes):
    """Counts of words in documents: as skewed and as sparse as counts of genes in cells."""
    x = sp.load_npz(shared_data / name).tocsr()
    agree_with_scanpy(fl.single_cell(fl.from_blocks([x]), 10, genes=genes), x, genes, 10)


def unvaried(seed: int, cells: int, genes: int, zero: int):
    """Counts with genes that are 0 in every cell: as every real set has."""
    rng = np.random.default_rng(seed)
    varied = rng.poisson(rng.gamma(1, 1, (1, genes)), (cells, genes))
    return sp.csr_matrix(np.hstack([varied, np.zeros((cells, zero))]).astype("f4"))


@pytest.mark.parametrize("zero", [0, 100])
@pytest.mark.parametrize("genes", [3, 150, 250, 290, 400])
def test_genes_without_counts_are_never_chosen(genes, zero):
    """Cutoffs above and below 0, more genes than vary, and genes that share a dispersion at the cutoff."""
    x = unvaried(1, 400, 300, zero)
    x = sp.hstack([x, x[:, 40:120]], "csr")  # 80 pairs of equal genes: some cutoff lies on one
    r = fl.single_cell(fl.from_blocks([x]), 3, genes=genes)
    chosen, relative, _, _ = straight(x, genes, 3)
    np.testing.assert_array_equal(r.genes, chosen)
    np.testing.assert_allclose(r.normalized_dispersions, relative, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert np.asarray(x.sum(0)).ravel()[r.genes].all()


@pytest.mark.parametrize("genes", [150, 250, 290])
def test_genes_without_counts_are_scanpys(genes):
    x = unvaried(1, 400, 300, 100)
    agree_with_scanpy(fl.single_cell(fl.from_blocks([x]), 5, genes=genes), x, genes, 5)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 9])
def test_the_choice_at_a_tie_is_scanpys(count):
    """scanpy's own choice on dispersions with ties, negative ones and genes that have none."""
    subset = pytest.importorskip("scanpy.preprocessing._highly_variable_genes")._subset_genes
    dispersions = np.array([np.nan, 2.0, -1.0, 0.5, 0.5, np.nan, 2.0, -1.0, -3.0])
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.zeros((1, 9), "f4"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that fewer genes have a dispersion
        wanted = subset(adata, mean=np.zeros(9), dispersion_norm=dispersions.copy(), cutoff=count)
    np.testing.assert_array_equal(choose_genes(dispersions, count), np.flatnonzero(wanted))


def test_the_limit_is_refused_before_work_and_the_least_works(isolated):
    """In a process of its own: what this one holds moves with other tests."""
    found = isolated(
        """
        from tests.support.processes import random_csr
        def cells(i):
            m = random_csr(60_000, 900, 0.03, i, "float32")
            m.data = np.ceil(m.data * 7)
            return m
        X = fl.from_blocks((cells(i) for i in range(4)), "x.zarr")
        X.sum(0), X.sum(1)  # what a first run leaves and gives back is done with
        named, works = [], []
        for case in (lambda m: fl.single_cell(X, 10, genes=300, memory=m), lambda m: X.var(1, memory=m),
                     lambda m: fl.single_cell(np.log1p(X), 10, genes=300, memory=m, method="krylov")):
            try:
                case(1 << 20)
                raise SystemExit("not refused")
            except fl.BudgetError as error:
                named.append(str(error).split(":")[0])
                least = error.least
            done = fl.stats()
            try:
                case(least - (12 << 20))  # enough for the first step
                raise SystemExit("named too much")
            except fl.BudgetError:
                assert fl.stats() is done, "something ran before the refusal"
            case(least)
            works.append([fl.stats().peak_memory, least, fl.stats().passes])
        plan = fl.single_cell.plan(X, 10, genes=300, memory="2GiB", method="gram")
        fl.single_cell(X, 10, genes=300, memory="2GiB", method="gram", out="r.zarr")
        both = [[s.passes, s.bytes_read, s.peak_memory, s.what] for s in (plan, fl.stats())]
        result = [named, works, *both]
        """
    )
    named, works, plan, done = found
    assert named == ["single_cell", "var", "single_cell"]
    for peak, least, _ in works:
        assert peak <= least
    assert plan[0] == done[0] == 2 + 3  # of the PCA: means, Gram matrix, scores
    assert plan[1] == pytest.approx(done[1], rel=0.02)
    assert plan[2] == pytest.approx(done[2], rel=0.15)
    assert plan[3] == done[3]


def test_a_result_that_is_killed_is_whole_or_absent(tmp_path, counts, isolated):
    fl.from_blocks([counts], tmp_path / "a.zarr")
    code = """
        import os, signal
        from flagstone._output.path_place import GroupPlace
        write, left = GroupPlace.write, [int(stop)]
        def dies(self, *given):
            left[0] -= 1
            if left[0] < 0: os.kill(os.getpid(), signal.SIGKILL)
            write(self, *given)
        GroupPlace.write = dies
        fl.single_cell(fl.open("a.zarr"), 5, genes=300, out="r.zarr")
    """
    for stop in (0, 6, 8, 9):
        assert isolated(code, stop=stop, check=False).returncode == -9
        assert not (tmp_path / "r.zarr").exists()
    assert isolated(code, stop=10, check=False).returncode == 0
    assert fl.open_pca(tmp_path / "r.zarr").components.shape == (5, 300)
    assert fl.open(tmp_path / "r.zarr", key="dispersions_norm").shape == (1500,)


def test_recipe_from_the_command_line(tmp_path, counts):
    fl.from_blocks([counts], tmp_path / "a.zarr")
    arguments = ["recipe", "single-cell", str(tmp_path / "a.zarr"), "-k", "5", "--genes", "300"]
    done = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "r.zarr")])
    assert done.exit_code == 0, done.output
    assert "300 of 1,500 genes" in done.output
    assert fl.open_pca(tmp_path / "r.zarr").components.shape == (5, 300)
    np.testing.assert_array_equal(fl.open(tmp_path / "r.zarr" / "genes")[...], straight(counts, 300, 5)[0])


@pytest.mark.parametrize(("call", "message"), [
    (lambda A: fl.single_cell(np.ones((3, 4))), "X is ndarray; a matrix of cells x genes"),
    (lambda A: fl.single_cell(A, 30, genes=20), "between 1 and genes"),
    (lambda A: fl.single_cell(A.scale(factor=-1.0), 3), "must hold counts"),
    (lambda A: fl.single_cell(A, 3, target=-1), "target is -1; counts of a cell"),
    (lambda A: fl.single_cell(A, 3, target=np.nan), "target is nan"),
    (lambda A: fl.single_cell(fl.from_blocks([np.zeros((0, 9))]), 3), "X is 0 x 9; at most 0 components"),
])  # fmt: skip
def test_bad_input(tmp_path, counts, call, message):
    with pytest.raises(fl.ShapeError, match=message):
        call(fl.from_blocks([counts], tmp_path / "a.zarr"))


def test_a_view_by_columns_is_packed_by_rows_first(tmp_path, counts):
    A = fl.from_blocks([counts], tmp_path / "a.zarr")
    by_columns = fl.from_blocks([counts.T.tocsr()], tmp_path / "t.zarr")
    np.testing.assert_array_equal(
        fl.single_cell(by_columns.T, 3, genes=100).genes, fl.single_cell(A, 3, genes=100).genes
    )


@pytest.mark.parametrize("value", [-1.0, -1e-3])
def test_negative_counts_are_named(value):
    """Whatever the cell's counts sum to: log1p of what is scaled would be NaN, or pass."""
    x = np.ones((20, 9))
    x[7, 3] = value
    with pytest.raises(fl.ShapeError, match=f"^single_cell: cell 7 holds a negative count, {value:g};"):
        fl.single_cell(fl.from_blocks([x]), 2, genes=5)


def test_cells_with_nan_are_named():
    x = np.ones((20, 9))
    x[7, 3] = np.nan
    with pytest.raises(fl.NumericalError, match="the counts of cell 7 sum to nan"):
        fl.single_cell(fl.from_blocks([x]), 2, genes=5)
    with pytest.raises(TypeError, match="center is not possible here"):
        fl.single_cell(fl.from_blocks([x]), 2, genes=5, center=False)
