"""What an entry of the register says, and how one is added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]

#: MiB: to open a sparse matrix its last pointer is looked at, in a packed chunk of 512 Ki pointers.
POINTERS = 10


@dataclass(frozen=True)
class Entry:
    """One way to touch data.

    `make(variant)` prepares, outside every limit, and returns the call that is measured; the working folder
    holds what `data.prepare` wrote. `variants` are names that run the same code, such as the operators: one
    of them is drawn for each case.
    """

    name: str
    make: Callable[[str], Call]
    covers: tuple[str, ...]
    variants: tuple[str, ...]
    #: Why a limit that is too small is noticed after data were read; "": it is refused before.
    refused_late: str = ""
    #: MiB beside what was resident at entry that looking at headers takes, and a call that is refused.
    headers: int = 4
    #: MiB that may stay: 4, or what a library keeps for its next call.
    stays: int = 4


ENTRIES: dict[str, Entry] = {}


def entry(
    name: str,
    *covers: str,
    variants: tuple[str, ...] = (),
    refused_late: str = "",
    headers: int = 4,
    stays: int = 4,
) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Enter a function that prepares a case and returns the call.

    `covers`: public names without "flagstone.", "{}" standing for each variant. Where there are variants the
    function takes the one that was drawn.
    """

    def enter(make: Callable[..., Call]) -> Callable[..., Call]:
        assert name not in ENTRIES, name
        public = tuple(one.format(v) for one in covers for v in (variants if "{}" in one else ("",)))
        prepared = make if variants else lambda variant: make()
        ENTRIES[name] = Entry(name, prepared, public, variants or ("",), refused_late, headers, stays)
        return make

    return enter
