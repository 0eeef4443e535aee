"""Two-body interactions: of a file, or a random ensemble."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from typing import Any

from .. import _core
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, shown, storage_error
from .._resume.identity import file_identity
from .._resume.openers import check_unchanged
from .._runtime.arguments import seed_number

__all__ = ["Interaction", "interaction_of"]


class Interaction:
    """Energies of single nucleons and two-body elements coupled to J; it commutes with J² by construction.

    Made by `read` or `random`.
    """

    __module__ = "flagstone.nuclear"

    def __init__(self, core: _core.NuclearInteraction, what: str, told: dict[str, Any]) -> None:
        self.core, self.what, self.told = core, what, told

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], *, orbits: str | os.PathLike[str] | None = None,
        scaling: tuple[int, float, float] | None = None,
    ) -> Interaction:  # fmt: skip
        """Read a file of KSHELL's form (``.snt``) or BIGSTICK's isospin form (``.int``); packed ones too.

        Parameters
        ----------
        path : path
            Ends in ``.snt`` or ``.int``, or in ``.gz`` behind that.
        orbits : path, optional
            Of an ``.int`` file its ``.sps``; default: beside it, of the same name.
        scaling : (core, mass, power), optional
            Two-body elements times (mass / A)^power in a nucleus of A nucleons, of which `core` are in closed
            shells below; for an ``.int`` file that does not say it.

        Raises
        ------
        FormatError
            It is damaged, an element breaks J, parity or charge, or two that must be equal are not; names
            the line.
        """
        place = path_text("nuclear.Interaction", path)
        kind = place.removesuffix(".gz").rpartition(".")[2]
        if kind not in ("snt", "int"):
            raise FormatError(
                f"nuclear.Interaction: '{place}' does not end in .snt or .int (or .gz behind it); KSHELL's "
                "proton-neutron form and BIGSTICK's isospin form are read."
            )
        told = file_identity(place)
        if kind == "snt":
            if orbits is not None or scaling is not None:
                raise ShapeError("nuclear.Interaction: an .snt file has orbits and scaling of its own.")
            core = _core.NuclearInteraction.read_snt(_text(place), place)
        else:
            beside = _orbits_beside(place, orbits)
            core = _core.NuclearInteraction.read_isospin(_text(place), place, _text(beside), beside)
            told = {"int": told, "sps": file_identity(beside), "scaling": None}
            if scaling is not None:
                told["scaling"] = _scaled(core, scaling)
        return cls(core, os.path.basename(place), told)

    @classmethod
    def random(cls, seed: int) -> Interaction:
        """Return the random two-body ensemble of a seed: real sparsity at any size, no table.

        Normal V_J(ab, cd), each a function of the seed and the quantum numbers (Philox).
        """
        seed = seed_number("nuclear.Interaction", seed)
        return cls(_core.NuclearInteraction.random(seed), f"random:{seed}", {"random": seed})

    @property
    def orbits(self) -> list[tuple[int, int, int, int]]:
        """Orbits of the file, as (n, l, 2j, 2tz), protons (-1) first; none of a random one, which has all."""
        return [
            (*orbit, 1 if neutrons else -1)
            for neutrons in (False, True)
            for orbit in self.core.orbits(neutrons)
        ]

    def __repr__(self) -> str:
        return f"Interaction({self.what!r})"


def _text(place: str) -> str:
    """Return what a file holds, unpacked."""
    try:
        if place.endswith(".gz"):
            with gzip.open(place, "rt", encoding="utf-8") as packed:
                return packed.read()
        with open(place, encoding="utf-8") as file:
            return file.read()
    except (EOFError, UnicodeDecodeError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(
            f"nuclear.Interaction: '{place}' cannot be read ({error}); it is damaged."
        ) from None
    except OSError as error:
        number = error.errno or errno.EIO
        raise storage_error(
            f"nuclear.Interaction: '{place}' cannot be read: {os.strerror(number)}; give a file "
            "that is there and may be read.", number, place,
        ) from None  # fmt: skip


def _orbits_beside(place: str, orbits: Any) -> str:
    if orbits is not None:
        return path_text("nuclear.Interaction", orbits)
    beside = place.removesuffix(".gz").removesuffix(".int") + ".sps"
    if not os.path.exists(beside):
        raise storage_error(
            f"nuclear.Interaction: the orbits of '{place}' are in an .sps file, and '{beside}' is not there; "
            "give orbits=.", errno.ENOENT, beside,
        )  # fmt: skip
    return beside


def _scaled(core: _core.NuclearInteraction, scaling: Any) -> list[float]:
    """Let an interaction be scaled; return by what."""
    try:
        nucleons, mass, power = scaling
        numbers = int(nucleons), float(mass), float(power)
    except (TypeError, ValueError, OverflowError):
        numbers = -1, 0.0, 0.0
    if not 0 <= numbers[0] <= 1000:
        raise ShapeError(
            f"nuclear.Interaction: scaling is {shown(scaling)}; (nucleons of the core, mass, power) is "
            "needed, such as (16, 18, 0.3)."
        )
    core.set_scaling(numbers[0], numbers[1], -numbers[2], "nuclear.Interaction")
    return list(numbers)


def interaction_of(told: dict[str, Any]) -> Interaction:
    """Return the one that a record tells of; FormatError where its file was changed since."""
    if "random" in told:
        return Interaction.random(told["random"])
    for file in (told.get("int", told), told.get("sps")):
        if file is not None:
            check_unchanged("the interaction", file)
    if "int" not in told:
        return Interaction.read(told["path"])
    return Interaction.read(told["int"]["path"], orbits=told["sps"]["path"], scaling=told["scaling"])
