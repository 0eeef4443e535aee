"""Z: states of good J, group by group."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from .._errors.classes import ShapeError
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags, one_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._subspace.basis import BasisPlace, dtype_name, file_count
from .._subspace.stored import BlockBasis, PlannedBasis
from .momentum import doubled, momentum_text
from .space import Space, space_of

__all__ = ["basis_of_j", "planned_basis"]


class BasisOfJ(Routine[BlockBasis]):
    """The checked arguments of one call."""

    operation = "basis of j"

    def __init__(
        self, space: Space, J: Any, M: Any, dedup: bool, dtype: str, files: int, out: Any, memory: Any
    ) -> None:
        who = "nuclear.basis_of_j"
        call = Call(who, memory)
        if not isinstance(space, Space):
            raise ShapeError(f"{who}: space is {type(space).__name__}; a nuclear.Space is needed.")
        kind = np.dtype(one_of(who, "dtype", dtype_name(dtype), "float32", "float64"))
        check_flags(who, dedup=dedup)
        self.space, self.two_j = space, doubled(who, "J", J, space.nucleons)
        self.two_m = self.two_j if M is None else doubled(who, "M", M, space.nucleons)
        columns = space.columns(J, self.two_m)
        self.basis = space.basis(self.two_m)
        same = self.basis.patterns if dedup else [-1] * self.basis.groups
        files = file_count(who, files)
        self.layout = _core.lay_out_blocks(self.basis.rows, columns, same, kind.itemsize, files)
        about = {
            "two_j": self.two_j, "two_m": self.two_m, "dedup": bool(dedup), "space": space._about(),
            "version": _core.__version__,
        }  # fmt: skip
        self.place = BasisPlace(call, out, self.layout, kind, about)
        super().__init__(call, [self.place])
        call.outputs = self.place.named(len(self.place.parts))

    @property
    def what(self) -> str:
        return f"basis of J = {momentum_text(self.two_j)}, {self.basis.dimension} rows of {self.space!r}"

    def job(self, at: At) -> _core.Job:
        values: Any = at(self.place)
        files = values[: self.place.files]
        return _core.basis_of_j_job(self.basis, self.two_j, self.layout, files, self.place.checkpoint)

    def arguments(self) -> dict[str, Any]:
        told = self.place.about["flagstone"]
        options = {name: told[name] for name in ("space", "two_j", "two_m", "dedup")}
        told = None if self.space.nmax is not None else self.space.identity()["interaction"]  # whose orbits
        return options | {"files": self.place.files, "dtype": self.place.dtype.name, "interaction": told}

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes."""
        numbers = self.place.nbytes / self.place.dtype.itemsize
        return 3 * numbers, float(self.place.nbytes)

    def planned_basis(self) -> PlannedBasis:
        """Return the shapes of what it would write."""
        return PlannedBasis(self.layout, self.place.dtype, self.place.about["flagstone"])

    def how(self, job: Any) -> How:
        return How("coupled multiplets", 1, f"{len(self.layout.offsets)} blocks")

    def result(self, job: Any) -> BlockBasis:
        return self.place.finished()


@routine
def basis_of_j(
    space: Space, J: Any, *, dedup: bool = True, dtype: str = "float32", M: Any = None,
    files: int = 1, out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[BlockBasis]:  # fmt: skip
    """Store an orthonormal basis of the states of one J, group by group.

    Parameters
    ----------
    space : Space
        Whose rows of total M.
    J : int, str or float
        2, "5/2" or 2.5.
    dedup : bool
        Store equal blocks once: J² of a group depends on the angular momenta of its partly filled orbits
        alone.
    dtype : {"float32", "float64"}
        Of what is stored; five decimals of an energy need float64.
    M : int, str or float, optional
        At most J; default J, which has the fewest rows.
    files : int
        Arrays that Z is dealt to: group i goes to number i mod files, as Aktulga et al. (Euro-Par 2012) deal
        them.
    out : path, optional
        A Zarr group. Default: scratch; deleted when the last handle dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    BlockBasis

    Raises
    ------
    ShapeError
        J is no angular momentum of so many nucleons; M is above J.
    NumericalError
        A group has not d(J) - d(J+1) states.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    States of J of the protons and of the neutrons of a group, coupled by Clebsch-Gordan coefficients; those
    of one species from M to M - 1 by J₋, the new ones at each M by a QR of what came. Of a block of d x z
    numbers 3 d z flops, of each pattern of one species 8/3 Σ d_M³. Aktulga et al. (HPCS 2011) take the kernel
    of J₊ of each group, 4 d³ flops. Writes Z once. ``basis_of_j.plan(...)`` takes the same arguments and
    counts. With `out` a killed call goes on behind the stretches of blocks, of 512 KiB or more, that were
    noted.
    """
    return BasisOfJ(space, J, M, dedup, dtype, files, out, memory)


@resumable("basis of j")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {name: told[name] for name in ("dedup", "dtype", "files")}
    options |= {"M": f"{told['two_m']}/2", "out": path}
    return basis_of_j, (space_of(told["space"], told["interaction"]), f"{told['two_j']}/2"), options


def planned_basis(
    space: Space, J: Any, *, dedup: bool = True, dtype: str = "float32", M: Any = None, files: int = 1
) -> PlannedBasis:
    """Return the shapes of what `basis_of_j` would store: for ``subspace.project.plan``.

    Parameters
    ----------
    space, J, dedup, dtype, M, files
        As for `basis_of_j`.

    Returns
    -------
    PlannedBasis
        ``rows``, ``columns``, ``shape``, ``nbytes``; it has no blocks, and nothing was made or written.

    Raises
    ------
    ShapeError
        J is no angular momentum of so many nucleons; M is above J.

    Notes
    -----
    Lists the groups of the space, some 100 bytes each; no bytes are read or written, no arithmetic.
    """
    return BasisOfJ(space, J, M, dedup, dtype, files, None, None).planned_basis()
