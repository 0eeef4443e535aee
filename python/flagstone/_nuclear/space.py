"""Spaces of protons and neutrons."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from .. import _core
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._resume.registers import opener
from .._runtime.arguments import whole_number
from .._sparse.array import SparseArray
from .._subspace.keep import store_rows
from .interaction import Interaction, interaction_of
from .momentum import MOST_TWO_J, doubled, momentum_text

_MOST = 1000  # nucleons: more than any nucleus has
_MOST_QUANTA = 30  # of excitation

__all__ = ["Counts", "Space", "space_of"]


class Counts(NamedTuple):
    """Sizes of a projection on one J."""

    groups: int  #: occupation numbers of orbits
    groups_used: int  #: those that have states of this J
    dimension: int  #: rows of M = J
    columns: int  #: states of J
    tasks: int  #: pairs of used groups that differ by two moves of nucleons at most
    z_bytes: int  #: of Z in float32, every block
    distinct_bytes: int  #: of Z in float32, equal blocks once
    h_prime_bytes: int  #: of the lower triangle of H' in float32, all these pairs
    nonzeros: int  #: of the lower triangle of H, at most: rows that differ by two nucleons, of one parity


class Space:
    """Slater determinants of protons and neutrons, in groups of equal occupation numbers.

    Parameters
    ----------
    protons, neutrons : int
        Nucleons of each kind (of a valence space: beyond its core).
    nmax : int, optional
        Most quanta of excitation, of whose parity all are: a no-core space in the oscillator's orbits.
        Default: a valence space of all orbits of the interaction.
    interaction : Interaction, optional
        What `subspace.project` projects; a valence space needs it for its orbits.

    Raises
    ------
    ShapeError
        More nucleons than states; neither nmax nor an interaction with orbits; an orbit that the interaction
        lacks.
    """

    __module__ = "flagstone.nuclear"

    def __init__(
        self, protons: int, neutrons: int, nmax: int | None = None, interaction: Interaction | None = None
    ) -> None:
        who = "nuclear.Space"
        protons, neutrons = (
            whole_number(who, "protons", protons, 0),
            whole_number(who, "neutrons", neutrons, 0),
        )
        if interaction is not None and not isinstance(interaction, Interaction):
            raise ShapeError(f"{who}: interaction is {shown(interaction)}; a nuclear.Interaction is needed.")
        if protons + neutrons > _MOST:
            raise ShapeError(
                f"nuclear.Space: there are {protons + neutrons} nucleons; {_MOST} at most are held."
            )
        nmax = None if nmax is None else whole_number(who, "nmax", nmax, 0, _MOST_QUANTA)
        self.protons, self.neutrons, self.nmax, self.interaction = protons, neutrons, nmax, interaction
        if nmax is not None:
            self.orbits = _reached(protons, nmax), _reached(neutrons, nmax)
        elif interaction is None or not interaction.orbits:
            raise ShapeError(
                "nuclear.Space: without nmax the orbits are those of an interaction file; give nmax= "
                "or interaction=."
            )
        else:
            self.orbits = interaction.core.orbits(False), interaction.core.orbits(True)
        self._core = _core.NuclearSpace(*self.orbits, protons, neutrons, nmax)
        self._bases: dict[int, _core.NuclearBasis] = {}

    @property
    def nucleons(self) -> int:
        """Of both kinds."""
        return self.protons + self.neutrons

    def counts(self, J: Any) -> Counts:
        """Return sizes for one J (2, "5/2" or 2.5), without listing states; 5 seconds at Nmax 14.

        ``nonzeros`` is counted of 200,000 rows, evenly chosen, where there are more: a thousandth off.
        """
        c = self._core.counts(doubled("nuclear.Space.counts", "J", J, self.nucleons))
        return Counts(*c[:5], 4 * c[5], 4 * c[6], int(4 * c[7]), int(c[8]))

    def basis(self, two_m: int) -> _core.NuclearBasis:
        """Return the rows of one total M: `groups`, `dimension`, `rows` of each. Kept for the last M."""
        two_m = whole_number("nuclear.Space.basis", "two_m", two_m, -MOST_TWO_J * self.nucleons)
        if two_m % 2 != self.nucleons % 2 or two_m > MOST_TWO_J * self.nucleons:
            raise ShapeError(
                f"nuclear.Space.basis: two_m is {two_m} and there are {self.nucleons} nucleons; an "
                f"{'odd' if self.nucleons % 2 else 'even'} number of at most {MOST_TWO_J} for each is needed."
            )
        if two_m not in self._bases:
            self._bases = {two_m: _core.NuclearBasis(self._core, two_m)}
        return self._bases[two_m]

    def block_source(self, basis: Any) -> _core.BlockSource:
        """Return H as the core takes it, on the rows of a Z of `basis_of_j`."""
        told = basis.about.get("space")
        if told != self._about():
            raise ShapeError(
                f"project: Z was made for {told or 'no space'}, and H is that of {self._about()}."
            )
        return self._source(self.basis(basis.about.get("two_m")), "project")

    def hamiltonian(self, two_m: int, out: str | os.PathLike[str] | None = None) -> SparseArray:
        """Store H on the rows of one total M, by rows with both triangles, and the rows of each group.

        Parameters
        ----------
        two_m : int
            Twice M.
        out : path, optional
            Where it goes; what was there is replaced. Default: scratch, until the handle dies.

        Returns
        -------
        SparseArray
            float64; `subspace.project` takes it in the place of the space.

        Notes
        -----
        Makes each block below the diagonal twice and writes about 10 bytes a value; holds the rows of one
        group.
        """
        rows = self.basis(two_m)
        source = self._source(rows, "nuclear.Space.hamiltonian")
        return store_rows("nuclear.Space.hamiltonian", source, rows.rows, out, self.identity())

    def _source(self, rows: _core.NuclearBasis, who: str) -> _core.BlockSource:
        if self.interaction is None:
            raise ShapeError(f"{who}: the space has no interaction; give one, Space(..., interaction=).")
        return _core.NuclearHamiltonian(rows, self.interaction.core).source()

    def identity(self) -> dict[str, Any]:
        """Return what tells its Hamiltonian from another one."""
        assert self.interaction is not None
        return {"space": self._about(), "interaction": self.interaction.told}

    def _about(self) -> list[Any]:
        """Return what decides its rows, as JSON has it."""
        return [self.protons, self.neutrons, self.nmax, [[list(o) for o in side] for side in self.orbits]]

    def __repr__(self) -> str:
        of = "" if self.interaction is None else f", {self.interaction.what}"
        where = "valence" if self.nmax is None else f"Nmax {self.nmax}"
        return f"Space({self.protons} protons, {self.neutrons} neutrons, {where}{of})"

    def columns(self, J: Any, two_m: int) -> list[int]:
        """Return how many states of J each group has."""
        two_j = doubled("nuclear.Space", "J", J, self.nucleons)
        if two_m > two_j or two_m < 0 or two_m % 2 != two_j % 2:
            raise ShapeError(
                f"nuclear.basis_of_j: M is {momentum_text(two_m)} and J {momentum_text(two_j)}; 0 <= M "
                "<= J is needed."
            )
        return self.basis(two_m).columns(two_j)


@opener("nuclear space")
def space_of(about: list[Any], interaction: dict[str, Any] | None) -> Space:
    """Return the space that a record tells of; its interaction is read again where there was one."""
    protons, neutrons, nmax, _ = about
    return Space(protons, neutrons, nmax, None if interaction is None else interaction_of(interaction))


def _reached(nucleons: int, nmax: int) -> list[tuple[int, int, int]]:
    """Return all orbits that one of so many nucleons can reach."""
    most = nmax
    while nucleons > 0:
        orbits = _core.oscillator_orbits(most)
        held = sum(two_j + 1 for _, _, two_j in orbits)
        if held >= nucleons:
            highest = _core.least_quanta(orbits, nucleons) - _core.least_quanta(orbits, nucleons - 1)
            return _core.oscillator_orbits(highest + nmax)
        most += 1
    return _core.oscillator_orbits(0)
