"""Z dealt to another number of files."""

from __future__ import annotations

import contextlib

from .. import _core
from .._runtime.call import Call
from .basis import BasisPlace, write_blocks
from .stored import BlockBasis

__all__ = ["dealt", "dealt_layout"]


def dealt_layout(Z: BlockBasis, files: int) -> _core.BlockLayout:
    """Return where its blocks go: those that are stored once stay so."""
    stored = Z.stored.tolist()
    all_stored = len(Z.offsets) == sum(1 for block in stored if block >= 0)
    same = [-1] * len(stored) if all_stored else stored
    return _core.lay_out_blocks(Z.rows.tolist(), Z.columns.tolist(), same, Z.dtype.itemsize, files)


def dealt(call: Call, Z: BlockBasis, layout: _core.BlockLayout) -> BlockBasis:
    """Copy it, in scratch: one read and one write, a stretch at a time."""
    about = {name: told for name, told in Z.about.items() if name not in ("kind", "files")}
    with contextlib.ExitStack() as stack:
        place = BasisPlace(call, None, layout, Z.dtype, about)
        cores = place.open(stack)[: len(layout.lengths)]
        write_blocks(call, layout, cores, Z.dtype, lambda group: Z.block(group).ravel())
        return place.finished()
