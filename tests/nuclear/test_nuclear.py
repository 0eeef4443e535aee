"""Spaces, interactions, Hamiltonians by groups, bases of J: against counts, energies and a slow oracle."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone import _core, nuclear, subspace
from flagstone._cli import cli
from tests.nuclear.rows import RowByRow, clebsch


@pytest.fixture
def usdb(shared_data):
    return shared_data / "nuclear" / "usdb.snt"


# Aktulga et al., Euro-Par 2012, table 1, to its digits; integers: counted by listing states and pairs of
# groups.
TABLE = [
    (4, 1, 717, 15_764, 3_298, 37_406, 0.001e9),
    (6, 2, 4_382, 157_486, 39_521, 540_283, 0.0138e9),
    (8, 2, 19_629, 1_323_908, 263_408, 4_599_301, 0.1714e9),
    (12, 3, 243_704, 37_663_447, 6_965_415, None, 11.21e9),
    pytest.param(14, 3, 711_587, 169_826_273, 26_678_359, None, 67.06e9, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("nmax", "J", "used", "dimension", "columns", "tasks", "nbytes"), TABLE)
def test_counts_of_the_paper(nmax, J, used, dimension, columns, tasks, nbytes):
    found = nuclear.Space(3, 3, nmax).counts(J)
    assert (found.groups_used, found.dimension, found.columns) == (used, dimension, columns)
    assert tasks is None or found.tasks == tasks
    assert abs(found.z_bytes - nbytes) < max(0.001 * nbytes, 0.0005e9)
    if nmax == 14:
        assert found.distinct_bytes == pytest.approx(4.49e9, rel=1e-3)
        assert found.tasks == pytest.approx(7.041e8, rel=1e-4)


@pytest.mark.parametrize("J", ["1/2", 2.25, -1, "two", None, 2**40, "1e999999999", "1/0", True])
def test_momenta_that_cannot_be(J):
    with pytest.raises(fl.ShapeError, match="J is"):
        nuclear.Space(3, 3, 2).counts(J)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nuclear.Space(2, None, 2), "neutrons is None"),
        (lambda: nuclear.Space(2, 2, 31), "nmax is 31; a whole number of at most 30"),
        (lambda: nuclear.Space(2, 2, 0, "usdb"), "interaction is 'usdb'"),
        (lambda: nuclear.Space(2, 2, 0).basis(1), "two_m is 1 and there are 4 nucleons; an even number"),
        (lambda: nuclear.Interaction.random(2**64), "seed is 18446744073709551616"),
    ],
)
def test_what_is_no_space(call, said):
    with pytest.raises(fl.ShapeError, match=said):
        call()


def test_counts_are_those_of_the_rows():
    for space, J in (
        (nuclear.Space(2, 3, 3), "3/2"),
        (nuclear.Space(0, 2, 4), 2),
        (nuclear.Space(2, 2, 0), 0),
    ):
        counted = space.counts(J)
        two_j = round(2 * float(eval(str(J))))
        basis = space.basis(two_j)
        assert (counted.groups, counted.dimension) == (basis.groups, basis.dimension)
        assert counted.columns == sum(space.columns(J, two_j))


def _dense(space, two_m):
    basis = space.basis(two_m)
    h = _core.NuclearHamiltonian(basis, space.interaction.core)
    first = np.concatenate([[0], np.cumsum(basis.rows)])
    made, entries = np.zeros((basis.dimension,) * 2), 0
    for i in range(basis.groups):
        for j in h.couplings(i):
            starts, columns, values = h.block(i, j)
            assert len(values) <= h.most_nonzeros(i, j)
            rows = first[i] + np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            made[rows, first[j] + np.array(columns, int)] = values
            made[first[j] + np.array(columns, int), rows] = values
            entries += len(values) * (1 if i == j else 2)
    return made, entries


@pytest.mark.parametrize(
    ("protons", "neutrons", "nmax", "two_m"),
    [(2, 2, None, 0), (1, 2, 2, 1), (0, 3, 2, 3), (3, 3, 1, 2), (2, 2, 0, 0)],
)
def test_pairs_of_groups_are_the_rows(usdb, protons, neutrons, nmax, two_m):
    interaction = nuclear.Interaction.read(usdb) if nmax is None else nuclear.Interaction.random(7)
    space = nuclear.Space(protons, neutrons, nmax, interaction)
    oracle = RowByRow(space, two_m).dense()
    made, _ = _dense(space, two_m)
    assert np.abs(made - oracle).max(initial=0) <= 1e-13 * max(1, np.abs(oracle).max(initial=0))
    assert np.abs(oracle - oracle.T).max(initial=0) <= 1e-13 * max(1, np.abs(oracle).max(initial=0))


def test_commutes_with_j_squared():
    space = nuclear.Space(2, 2, 2, nuclear.Interaction.random(3))
    basis = space.basis(0)
    first = np.concatenate([[0], np.cumsum(basis.rows)])
    h, _ = _dense(space, 0)
    j2 = np.zeros_like(h)
    for g in range(basis.groups):
        up = np.zeros((basis.rows[g] * 4 + 8, basis.rows[g]))
        for to, row, value in basis.raising(g):
            up[to, row] += value
        j2[first[g] : first[g + 1], first[g] : first[g + 1]] = up.T @ up
    assert np.abs(h @ j2 - j2 @ h).max() <= 1e-11 * np.abs(h).max() * np.abs(j2).max()


def test_commutator_of_a_stored_h(tmp_path):
    """Of what a space makes nothing but rounding; of one element more what it adds; the command says so."""
    space = nuclear.Space(2, 2, 2, nuclear.Interaction.random(3))
    H = space.hamiltonian(0).to_scipy()
    assert 0 < nuclear.commutator(space.hamiltonian(0, out=tmp_path / "h.zarr"), space, 0) < 1e-13
    wrong = H.tolil()
    wrong[5, 9] = wrong[9, 5] = 3.0
    wrong = wrong.tocsr()
    n, basis = H.shape[0], space.basis(0)
    j2 = np.empty((n, n))
    basis.j_squared(np.eye(n), j2)
    assert np.abs(j2 - j2.T).max() < 1e-12
    of_j = np.linalg.eigvalsh(j2)
    whole = np.round(np.sqrt(of_j + 0.25) - 0.5)
    assert np.abs(of_j - whole * (whole + 1)).max() < 1e-9
    dense = wrong.toarray()
    exact = np.linalg.norm(dense @ j2 - j2 @ dense) / np.linalg.norm(dense)
    assert nuclear.commutator(wrong, space, 0, probes=200) == pytest.approx(exact, rel=0.25)
    fl.from_blocks([wrong], tmp_path / "wrong.zarr")
    options = [
        "project",
        "--protons",
        "2",
        "--neutrons",
        "2",
        "--nmax",
        "2",
        "-J",
        "0",
        "--float64",
        "--energies",
        "1",
    ]
    done = {
        name: CliRunner().invoke(cli, [*options, "--hamiltonian", str(tmp_path / f"{name}.zarr")])
        for name in ("h", "wrong")
    }
    assert done["h"].exit_code == 0, done["h"].output
    assert "H breaks J" in str(done["wrong"].output) + str(done["wrong"].exception)
    with pytest.raises(fl.ShapeError, match="a sparse matrix of as many rows"):
        nuclear.commutator(H[:5], space, 0)


def test_planned_bases_are_those_that_are_made():
    """Shapes without values, for plans that cost nothing."""
    space = nuclear.Space(2, 2, 2, nuclear.Interaction.random(3))
    for options in ({}, {"dedup": False, "files": 3, "dtype": "float64"}, {"M": 0}):
        Z, planned = nuclear.basis_of_j(space, 2, **options), nuclear.planned_basis(space, 2, **options)
        assert (planned.shape, planned.nbytes, planned.dtype) == (Z.shape, Z.nbytes, Z.dtype)
        plans = [subspace.project.plan(space, one) for one in (Z, planned)]
        assert len({(p.bytes_read, p.bytes_written, p.flops) for p in plans}) == 1
    for call in (lambda: subspace.project(space, planned), lambda: planned.block(0)):
        with pytest.raises(fl.ShapeError, match=r"nuclear\.basis_of_j makes"):
            call()


def test_clebsch_gordan():
    for j1, j2 in ((1, 1), (5, 3), (19, 15)):
        for J in range(abs(j1 - j2), j1 + j2 + 1, 2):
            for m1 in range(-j1, j1 + 1, 4):
                for m2 in range(-j2, j2 + 1, 2):
                    assert abs(_core.clebsch_gordan(j1, m1, j2, m2, J) - clebsch(j1, m1, j2, m2, J)) < 1e-8


@pytest.mark.parametrize(("J", "M", "dedup"), [(2, None, True), (2, None, False), (2, 0, True), (3, 1, True)])
def test_blocks_are_states_of_j(J, M, dedup):
    space = nuclear.Space(2, 2, 2)
    Z = nuclear.basis_of_j(space, J, M=M, dedup=dedup, dtype="float64")
    two_m = 2 * (J if M is None else M)
    basis = space.basis(two_m)
    distinct = len({p for p, z in zip(basis.patterns, Z.columns, strict=True) if z > 0})
    assert Z.stored.max() + 1 == (distinct if dedup else (Z.columns > 0).sum())
    m = two_m / 2
    for g in range(basis.groups):
        z = Z.block(g)
        assert np.abs(z.T @ z - np.eye(z.shape[1])).max(initial=0) < 1e-13
        up = np.zeros((4 * len(z) + 8, len(z)))
        for to, row, value in basis.raising(g):
            up[to, row] += value
        off = up.T @ (up @ z) + (m * (m + 1) - J * (J + 1)) * z
        assert np.abs(off).max(initial=0) < 1e-11


def test_a_damaged_interaction(usdb, tmp_path):
    text = usdb.read_text()
    for wrong, sentence in (
        (text[: len(text) // 2], "needed; the file is damaged"),
        (text.replace("1 1 1 1 0 -1.8992", "1 1 1 1 9 -1.8992"), "breaks J or parity"),
        (text.replace("1 1 1 1 2 -0.0974", "1 4 1 1 2 -0.0974"), "breaks charge"),
        (text.replace("1 0 2 3 -1", "1 0 2 9 -1"), "not an orbit"),
        (text.replace("1 1 2 2 0 -3.1025", "2 2 1 1 0 1.5\n1 1 2 2 0 -3.1025"), "given before"),
    ):
        place = tmp_path / "wrong.snt"
        place.write_text(wrong)
        with pytest.raises(fl.FormatError, match=sentence):
            nuclear.Interaction.read(place)
    for line, sentence in (
        ("-3 3 8 8", "orbits of protons is -3"),
        ("3 3 8.5 8", "protons of the core is 8.5"),
        ("3 3 8 -8", "neutrons of the core is -8"),
        ("3 3 8 1e99", r"neutrons of the core is 1e\+99"),
    ):
        place.write_text(line + "\n")
        with pytest.raises(fl.FormatError, match=f"line 1: the number of {sentence}"):
            nuclear.Interaction.read(place)
    with pytest.raises(FileNotFoundError, match=r"'.*none\.snt' cannot be read: No such file"):
        nuclear.Interaction.read(tmp_path / "none.snt")
    with pytest.raises(fl.ShapeError, match="does not list"):
        space = nuclear.Space(3, 3, 2, nuclear.Interaction.read(usdb))
        subspace.project(space, nuclear.basis_of_j(space, 1))
