"""H' = ZᵀHZ against SciPy, energies that are known, and itself under every order, limit and worker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import _core, nuclear, subspace

USDB, LITHIUM = "usdb.snt", "li6_daejeon16_hw15_acm40_nmax2.snt"

#: Protons, neutrons, Nmax, J, columns, pairs, energies: published, or full diagonalisations.
ENERGIES = [
    (USDB, 0, 2, None, 0, 3, 6, [-11.93179]),
    (USDB, 2, 2, None, 0, 46, 270, [-40.47233]),
    (USDB, 2, 2, None, 2, None, None, [-38.72564]),
    (USDB, 2, 3, None, "3/2", 341, 625, [-47.23316]),
    (USDB, 2, 4, None, 0, 216, 798, [-57.57816]),
    (LITHIUM, 3, 3, 2, 0, None, None, [-22.68902, -8.47010, 0.73887]),
    (LITHIUM, 3, 3, 2, 1, None, None, [-25.57766, -17.04194, -12.71218, -10.73929, -1.51607, 7.28565]),
    (LITHIUM, 3, 3, 2, 2, None, None, [-19.98330, -18.97546, -14.35415, 2.46952, 3.29595, 8.18085]),
    (LITHIUM, 3, 3, 2, 3, None, None, [-24.14824, -1.07853]),
]


def limited(mib):
    return fl.Runtime(memory=_core.resident_bytes() + (mib << 20), workers=2)


@pytest.mark.parametrize(("file", "protons", "neutrons", "nmax", "J", "columns", "pairs", "known"), ENERGIES)
def test_energies_that_are_known(shared_data, file, protons, neutrons, nmax, J, columns, pairs, known):
    space = nuclear.Space(protons, neutrons, nmax, nuclear.Interaction.read(shared_data / "nuclear" / file))
    Z = nuclear.basis_of_j(space, J, dtype="float64")
    with fl.Runtime(memory=subspace.project.plan(space, Z).least_memory, workers=2):
        H = subspace.project(space, Z)
        assert fl.stats().peak_memory <= fl.stats().memory
        assert columns in (None, H.shape[0])
        assert pairs in (None, fl.stats().pairs)
    with limited(48):
        found = H.eigvalsh(len(known))
    # files and tables are rounded: 1e-5 is their last digit
    assert np.abs(found - known).max() < 1.1e-5


def test_magnesium_through_the_operator(shared_data):
    """24Mg, 28,503 rows: H' is dense in 1,161 columns, and eigsh finds the same on the operator."""
    space = nuclear.Space(4, 4, None, nuclear.Interaction.read(shared_data / "nuclear" / USDB))
    H = subspace.project(space, nuclear.basis_of_j(space, 0, dtype="float64"))
    assert "2124 pairs" in fl.stats().note
    assert H.shape == (1161, 1161)
    found = H.eigvalsh(2)
    assert np.abs(found - [-87.10445, -79.76617]).max() < 1.1e-5
    w = fl.linalg.eigsh(H, 2, which="SA", tol=1e-9, return_eigenvectors=False)
    assert np.abs(np.sort(w) - found).max() < 1e-6


def _random_parts(seed=0, groups=9):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 40, groups)
    rows[3] = 1
    blocks = []
    for number, d in enumerate(rows):
        z = [0, d, max(d // 2, 1)][number % 3]
        blocks.append((int(d), np.linalg.qr(rng.normal(size=(d, d)))[0][:, :z] if z else None))
    n = int(rows.sum())
    half = sp.random(n, n, 0.05, random_state=rng)
    return (half + half.T).tocsr(), blocks


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_against_scipy(tmp_path, dtype):
    H, blocks = _random_parts()
    Z = subspace.basis(blocks, dtype=dtype, out=tmp_path / "z.zarr")
    made = subspace.project(H, Z, out=tmp_path / "h.zarr")
    z = Z.to_scipy().astype(float)
    expected = (z.T @ (H @ z)).toarray()
    bound = 60 * np.finfo(dtype).eps * np.abs(H).sum(axis=1).max()
    again = subspace.open(tmp_path / "h.zarr")
    dense = again.to_dense()
    assert np.abs(dense - expected).max() < bound
    assert (dense == dense.T).all()
    assert (again.to_scipy() != sp.csr_matrix(dense)).nnz == 0
    x = np.random.default_rng(1).normal(size=(made.shape[0], 3))
    assert np.abs(again @ x - dense @ x).max() < 1e-12 * np.abs(dense).sum(axis=1).max() * np.abs(x).max()
    assert np.abs(again @ x[:, 0] - dense @ x[:, 0]).max() < 1e-12 * np.abs(dense).sum() * np.abs(x).max()


def test_blocks_of_a_function():
    H, blocks = _random_parts(3)
    Z = subspace.basis(blocks)
    first = np.concatenate([[0], np.cumsum(Z.rows)])
    whole = H.tolil()

    def block(i, j):
        made = whole[first[i] : first[i + 1], first[j] : first[j + 1]]
        return made if made.nnz else None

    given = subspace.Blocks(block, Z.rows, [range(i + 1) for i in range(len(Z.rows))])
    assert np.abs(subspace.project(given, Z).to_dense() - subspace.project(H, Z).to_dense()).max() < 1e-12
    wrong = subspace.Blocks(lambda i, j: np.zeros((1, 1)), Z.rows, [[i] for i in range(len(Z.rows))])
    with pytest.raises(fl.ShapeError, match="the function made block"):
        subspace.project(wrong, Z)


def _values(H):
    return np.asarray(H.values).tobytes()


@pytest.fixture(scope="module")
def lithium():
    space = nuclear.Space(3, 3, 4, nuclear.Interaction.random(1))
    return space, nuclear.basis_of_j(space, 1), nuclear.basis_of_j(space, 1, dedup=False)


def test_same_bits(lithium):
    space, Z, whole = lithium
    bits = _values(subspace.project(space, Z))
    assert bits == _values(subspace.project(space, whole))
    assert bits == _values(subspace.project(space, whole, order="columns"))
    assert bits == _values(subspace.project(space, whole, panel="512KiB"))
    least = subspace.project.plan(space, whole).least_memory
    for memory, workers in ((least, 1), (2 * least, 2)):
        with fl.Runtime(memory=memory, workers=workers):
            assert bits == _values(subspace.project(space, whole))
            assert fl.stats().peak_memory <= memory


def test_plan_is_what_happens(lithium):
    space, _, whole = lithium
    with limited(64):
        plan = subspace.project.plan(space, whole)
        subspace.project(space, whole)
        done = fl.stats()
    assert (done.bytes_written, done.bytes_read) == (plan.bytes_written, plan.bytes_read)
    with pytest.raises(fl.BudgetError, match="project"), fl.Runtime(memory=_core.resident_bytes() // 2):
        subspace.project(space, whole)


def test_spectrum_is_that_of_h(lithium):
    """M = J and M < J agree, with as many values as there are states."""
    space = nuclear.Space(2, 2, 2, nuclear.Interaction.random(5))
    found = [
        subspace.project(space, nuclear.basis_of_j(space, 2, M=M, dtype="float64")).eigvalsh(10**6)
        for M in (2, 1, 0)
    ]
    for other in found[1:]:
        assert other.shape == found[0].shape
        assert np.abs(other - found[0]).max() < 1e-10 * np.abs(found[0]).max()


@pytest.mark.parametrize(
    ("protons", "neutrons", "nmax", "J"), [(0, 2, 2, 40), (1, 0, 0, "1/2"), (2, 2, 0, 0)]
)
def test_small_and_empty(protons, neutrons, nmax, J):
    space = nuclear.Space(protons, neutrons, nmax, nuclear.Interaction.random(1))
    H = subspace.project(space, nuclear.basis_of_j(space, J, dtype="float64"))
    assert H.shape[0] == space.counts(J).columns == len(H.eigvalsh(5))
    assert H.to_dense().shape == H.shape


KILLED = """
import os, sys
import flagstone as fl
from flagstone import nuclear, subspace
from flagstone._resume import record
record.saved = lambda number: number >= int(sys.argv[2]) and os.kill(os.getpid(), 9)
space = nuclear.Space(3, 3, 4, nuclear.Interaction.random(1))
with fl.Runtime(workers=1):
    Z = subspace.open(sys.argv[1] + "/z.zarr")
    subspace.project(space, Z, out=sys.argv[1] + "/h.zarr", panel="512KiB")
    print(fl.stats().what)
"""


def test_killed_and_gone_on(tmp_path, lithium, monkeypatch):
    space, _, _ = lithium
    monkeypatch.setenv("FLAGSTONE_CHECKPOINT_SECONDS", "0")
    nuclear.basis_of_j(space, 1, dedup=False, out=tmp_path / "z.zarr")

    def run(number):
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path), str(number)], capture_output=True, text=True
        )

    assert run(1).returncode == -signal.SIGKILL
    assert not (tmp_path / "h.zarr").exists()
    done = run(10**6)
    assert done.returncode == 0, done.stderr
    assert "resumed" in done.stdout
    assert _values(subspace.open(tmp_path / "h.zarr")) == _values(subspace.project(space, lithium[1]))


def test_what_does_not_fit(tmp_path, lithium):
    space, Z, _ = lithium
    H, blocks = _random_parts()
    mine = subspace.basis(blocks)
    for call, error, sentence in (
        (lambda: subspace.project(H[:5, :5], mine), fl.ShapeError, "as many are needed"),
        (lambda: subspace.project(space, mine), fl.ShapeError, "Z was made for"),
        (lambda: subspace.project(space, Z.values), fl.ShapeError, "a BlockBasis"),
        (lambda: subspace.project(space, Z, order="rows"), fl.ShapeError, "order is"),
        (lambda: subspace.basis([(3, np.ones((3, 2)))]), fl.NumericalError, "not orthonormal"),
        (lambda: subspace.basis([(3, np.ones((2, 2)))]), fl.ShapeError, "block 0"),
        (lambda: subspace.open(tmp_path), fl.FormatError, "neither a block basis"),
        (lambda: subspace.open(tmp_path / "none"), FileNotFoundError, "does not exist"),
    ):
        with pytest.raises(error, match=sentence):
            call()


def test_zarr_reads_it(tmp_path):
    """The index is enough for a reader that knows Zarr alone."""
    zarr = pytest.importorskip("zarr")
    H, blocks = _random_parts(2)
    made = subspace.project(H, subspace.basis(blocks), out=tmp_path / "h.zarr")
    group = zarr.open_group(tmp_path / "h.zarr", mode="r")
    columns, values = group["columns"][:], group["values"][:]
    first = np.concatenate([[0], np.cumsum(columns)])
    dense = np.zeros(made.shape)
    for _, _, start, _, block, count in group["runs"][:]:
        at = start
        for i, j in group["blocks"][block : block + count]:
            size = columns[i] * columns[j]
            part = values[at : at + size].reshape(columns[i], columns[j])
            dense[first[i] : first[i + 1], first[j] : first[j + 1]] = part
            dense[first[j] : first[j + 1], first[i] : first[i + 1]] = part.T
            at += size
    assert (dense == made.to_dense()).all()


def command(shared_data, file, *options):
    """Run it; return what it prints as JSON."""
    place = str(shared_data / "nuclear" / file)
    made = [sys.executable, "-m", "flagstone", "project", "--interaction", place, "--float64", "--json"]
    done = subprocess.run([*made, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_command(shared_data, tmp_path):
    """Two J of 6Li in one call, at the least memory that works, with its report."""
    out = str(tmp_path / "h-{J}.zarr")
    options = ("--nmax", "2", "--energies", "2", "-J", "1", "-J", "3", "--files", "2")
    told = command(shared_data, LITHIUM, *options, "-o", out, "--memory", "140MiB")
    for run, known in zip(told["runs"], ([-25.57766, -17.04194], [-24.14824, -1.07853]), strict=True):
        assert np.abs(np.array(run["energies"]) - known).max() < 1.1e-5
        assert run["stats"]["peak_memory"] <= run["stats"]["memory"]
        assert run["stats"]["pairs"] > 0
    assert subspace.open(tmp_path / "h-1.zarr").shape == (213, 213)
    for name in ("h-report.png", "h-report.json"):
        assert (tmp_path / name).stat().st_size > 1000


#: Protons, neutrons, J, columns, pairs, energies of USDB: published, or of full diagonalisations.
LARGE = [
    (4, 4, "0", 1_161, 2_124, [-87.10445, -79.76617]),
    (4, 4, "2", 4_518, 2_267, [-85.60215, -82.98830]),
    (4, 5, "5/2", 7_374, 2_723, [-94.40128, -92.40584]),
    (6, 6, "0", 3_372, 3_543, [-135.86073]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("protons", "neutrons", "J", "columns", "pairs", "known"), LARGE)
def test_large_nuclei_from_the_command_line(shared_data, protons, neutrons, J, columns, pairs, known):
    options = ["--protons", str(protons), "--neutrons", str(neutrons), "-J", J]
    planned = command(shared_data, USDB, *options, "--plan")
    least = max(plan["least_memory"] for plan in planned.values())
    told = command(shared_data, USDB, *options, "--memory", f"{(least >> 20) + 40}MiB", "--energies", "2")
    assert told["shape"] == [columns, columns]
    assert told["stats"]["pairs"] == pairs
    assert told["stats"]["peak_memory"] <= told["stats"]["memory"]
    assert np.abs(np.array(told["energies"][: len(known)]) - known).max() < 1.1e-5


@pytest.mark.slow
def test_lithium_of_four_quanta_against_the_whole_h(shared_data):
    """No published twin: H' of each J against the lowest pairs of H on the rows of M = 1."""
    file = shared_data / "nuclear" / "li6_daejeon16_hw15_acm40_nmax4.snt.gz"
    space = nuclear.Space(3, 3, 4, nuclear.Interaction.read(file))
    H = space.hamiltonian(2)
    whole = np.sort(fl.linalg.eigsh(H, 4, which="SA", tol=1e-9, return_eigenvectors=False))
    found = []
    for J in (1, 2, 3):
        made = subspace.project(space, nuclear.basis_of_j(space, J, dtype="float64"))
        found += made.eigvalsh(4).tolist()
    assert np.abs(np.sort(found)[:4] - whole).max() < 5e-6


def blocks_of(spoil):
    rows = [3, 4, 2]

    def made(i, j):
        block = sp.csr_matrix(np.ones((rows[i], rows[j])))
        spoil(block)
        return block

    return subspace.Blocks(made, rows, [[0], [0, 1], [0, 1, 2]])


def far_column(block):
    block.indices[:] = 10**6


def far_row(block):
    block.indptr[1] = 10**7


def nan(block):
    block.data[0] = np.nan


def skewed(block):
    block.data[1] = 5


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (far_column, fl.ShapeError, "is damaged"),
        (far_row, fl.ShapeError, "is damaged"),
        (nan, fl.NumericalError, "NaN or Inf"),
        (skewed, fl.ShapeError, "not symmetric"),
    ],
)
def test_what_a_function_makes_is_looked_at(spoil, error, said):
    Z = subspace.basis([(n, np.eye(n)) for n in (3, 4, 2)])
    with pytest.raises(error, match=said):
        subspace.project(blocks_of(spoil), Z)


def test_matrices_that_are_no_symmetric_ones():
    Z = subspace.basis([(2, np.eye(2))])
    with pytest.raises(fl.ShapeError, match="not symmetric"):
        subspace.project(sp.csr_matrix([[1.0, 2], [0, 3]]), Z)
    with pytest.raises(fl.ShapeError, match="complex128; real numbers"):
        subspace.project(sp.csr_matrix([[2, 1j], [-1j, 2]]), Z)
    with pytest.raises(TypeError, match="H is ndarray"):
        subspace.project(np.eye(2), Z)
