"""Where H and Z may come from: stored rows, several files, a kept H; the paper's order by the byte."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone import nuclear, subspace
from tests.subspace.test_project import _random_parts

PAGE = 4096


def values(H):
    return np.asarray(H.values).tobytes()


@pytest.fixture(scope="module")
def small():
    """6Li, Nmax 2, every block stored: Z and H' of it."""
    space = nuclear.Space(3, 3, 2, nuclear.Interaction.random(1))
    Z = nuclear.basis_of_j(space, 1, dedup=False, dtype="float64")
    return space, Z, subspace.project(space, Z)


def pages(Z):
    """Bytes of the whole pages that each group's block touches."""
    size = Z.rows * Z.columns * Z.dtype.itemsize
    first = Z.offsets[np.maximum(Z.stored, 0)] * Z.dtype.itemsize
    return np.where(size > 0, (first + size + PAGE - 1) // PAGE - first // PAGE, 0) * PAGE


@pytest.mark.parametrize("files", [1, 3])
def test_columns_read_what_the_paper_says(small, files):
    """|Z| + sum over pairs i > j of |Z_i|, no byte more or less; the plan says so too."""
    space, _, H = small
    Z = nuclear.basis_of_j(space, 1, dedup=False, dtype="float64", files=files)
    with fl.Runtime(workers=2):
        plan = subspace.project.plan(space, Z, order="columns")
        made = subspace.project(space, Z, order="columns")
        done = fl.stats()
    i, j = np.asarray(made.blocks[:]).T
    each = pages(Z)
    assert done.bytes_read == plan.bytes_read == each.sum() + each[i[i != j]].sum()
    assert done.bytes_written == plan.bytes_written
    assert values(made) == values(H)
    assert done.pairs == len(i)
    assert done.nonzeros > done.pairs
    assert set(done.components) == {"make", "multiply", "read", "write", "wait"}


def test_files_change_no_bit(small, tmp_path):
    space, Z, H = small
    dealt = nuclear.basis_of_j(space, 1, dtype="float64", files=4, out=tmp_path / "z.zarr")
    again = subspace.open(tmp_path / "z.zarr")
    assert len(again.files) == 4
    for group in (0, 5, len(Z.rows) - 1):
        assert (again.block(group) == Z.block(group)).all()
    assert values(subspace.project(space, dealt)) == values(H)
    assert values(subspace.project(space, Z, files=3)) == values(H)
    assert values(subspace.project(space, dealt, files=1, order="columns")) == values(H)
    _, blocks = _random_parts()
    mine = subspace.basis(blocks, files=2)
    assert abs(mine.to_scipy() - subspace.basis(blocks).to_scipy()).max() == 0


def test_rows_of_a_stripe_in_turn(small, monkeypatch):
    """Where a stripe's rows are many, several tasks make its blocks: less memory, the same bits."""
    space, Z, _ = small
    rows = space.hamiltonian(2)
    whole = subspace.project(rows, Z)
    tasks = fl.stats().tasks
    monkeypatch.setattr("flagstone._subspace.stored_rows._TOGETHER", 2000)
    made = subspace.project(rows, Z)
    done = fl.stats()
    assert values(made) == values(whole)
    assert done.tasks > tasks + 10
    assert done.pairs == len(np.asarray(made.blocks[:]))
    least = subspace.project.plan(rows, Z).least_memory
    with fl.Runtime(memory=least + (8 << 20)):
        assert values(subspace.project(rows, Z)) == values(whole)
        assert fl.stats().peak_memory <= fl.stats().memory


def test_h_that_is_stored(small, tmp_path):
    """By rows, on disk or in memory, kept on the way or before: one H'."""
    space, Z, H = small
    rows = space.hamiltonian(2, out=tmp_path / "h.zarr")
    whole = rows.to_scipy()
    assert abs(whole - whole.T).max() <= 4e-15 * abs(whole).max()  # rounding of the diagonal blocks
    made = subspace.project(rows, Z)
    assert np.abs(made.to_dense() - H.to_dense()).max() < 1e-12 * np.abs(H.to_dense()).max()
    assert values(subspace.project(whole, Z)) == values(made)
    assert values(subspace.project(rows, Z, order="columns", panel=None)) == values(made)
    subspace.project(space, Z, keep_h=tmp_path / "kept.zarr")
    kept = fl.open(tmp_path / "kept.zarr").to_scipy()
    assert (kept != whole).nnz == 0
    mine, blocks = _random_parts(4)
    z = subspace.basis(blocks)
    with pytest.raises(fl.ShapeError, match=r"has 9 groups and Z 2|has \d+ groups and Z 2; the same"):
        subspace.project(rows, subspace.basis([(1, None), (rows.shape[0] - 1, None)]))
    with pytest.raises(fl.ShapeError, match="keep_h is of an H that is made by blocks"):
        subspace.project(mine, z, keep_h=tmp_path / "no.zarr")


def test_spectrum_is_that_of_the_stored_h(small):
    """As many eigenvalues of H with <J²> = J(J+1) as H' has, and the same ones."""
    space, _, H = small
    whole = space.hamiltonian(2).to_scipy().toarray()
    found = np.linalg.eigvalsh(whole)
    of_j = {
        J: subspace.project(space, nuclear.basis_of_j(space, J, M=1, dtype="float64")) for J in range(1, 8)
    }
    together = np.sort(np.concatenate([one.eigvalsh(10**6) for one in of_j.values()]))
    assert len(together) == len(found)
    assert np.abs(together - found).max() < 1e-10 * np.abs(found).max()
    assert np.abs(of_j[1].eigvalsh(10**6) - H.eigvalsh(10**6)).max() < 1e-10 * np.abs(found).max()


def test_rows_that_are_not_symmetric(tmp_path):
    mine, blocks = _random_parts(4)
    Z = subspace.basis(blocks)
    skewed = mine.tolil()
    skewed[7, 3] = skewed[7, 3] + 1
    stored = fl.sparse.from_blocks([skewed.tocsr()], tmp_path / "a.zarr")
    with pytest.raises(fl.ShapeError, match="H is not symmetric: row [37] is not its column"):
        subspace.project(stored, Z)
    whole = fl.sparse.from_blocks([mine], tmp_path / "b.zarr")
    with pytest.raises(TypeError, match="this is a view"):
        subspace.project(whole[:5], Z)
    spoiled = mine.copy()
    spoiled.data[5] = np.nan
    with pytest.raises(fl.NumericalError, match="H holds NaN or Inf in rows"):
        subspace.project(spoiled, Z)
    with pytest.raises(fl.ShapeError, match="files is 0"):
        subspace.project(mine, Z, files=0)


def test_h_prime_that_no_disk_holds(monkeypatch):
    """Said before any work, with its size."""
    asked = []
    H = subspace.Blocks(lambda i, j: asked.append((i, j)), [500, 500], [[0], [0, 1]])
    Z = subspace.basis([(500, np.eye(500)), (500, np.eye(500))])
    monkeypatch.setattr("flagstone._scratch.scratch.free_bytes", lambda _: 1 << 20)
    with pytest.raises(
        OSError, match="project: the result takes 5.8 MiB and scratch .* has 1 MiB of space left"
    ):
        subspace.project(H, Z)
    assert not asked
