"""Two-body interactions: of a file, or a random ensemble."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from typing import Any

from .. import _core
from .._errors.classes import FormatError
from .._errors.messages import path_text, storage_error
from .._resume.identity import file_identity
from .._runtime.arguments import seed_number

__all__ = ["Interaction"]


class Interaction:
    """Energies of single nucleons and two-body elements coupled to J; it commutes with J² by construction.

    Made by `read` or `random`.
    """

    __module__ = "flagstone.nuclear"

    def __init__(self, core: _core.NuclearInteraction, what: str, told: dict[str, Any]) -> None:
        self.core, self.what, self.told = core, what, told

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Interaction:
        """Read a file of KSHELL's form (``.snt``, also packed, ``.snt.gz``).

        Raises
        ------
        FormatError
            It is damaged, an element breaks J, parity or charge, or two that must be equal are not; names
            the line.
        """
        place = path_text("nuclear.Interaction", path)
        if not place.endswith((".snt", ".snt.gz")):
            raise FormatError(
                f"nuclear.Interaction: '{place}' does not end in .snt or .snt.gz; KSHELL's "
                "proton-neutron form is read."
            )
        try:
            if place.endswith(".gz"):
                with gzip.open(place, "rt", encoding="utf-8") as packed:
                    text = packed.read()
            else:
                with open(place, encoding="utf-8") as file:
                    text = file.read()
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
        return cls(
            _core.NuclearInteraction.read_snt(text, place), os.path.basename(place), file_identity(place)
        )

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
