"""Any box of an array, brought into the memory of a card, for what other libraries compute there."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import _core
from .._array.array import Array
from .._array.basic_index import BasicIndexer, Key
from .._array.regions import Region
from .._array.requests import STAGING, empty, read, shape_text
from .._errors.classes import DeviceError, ShapeError
from .._errors.messages import shown
from .._runtime.call import Call

__all__ = ["DeviceArray", "fetch"]

_PIECE = 16 << 20  # bytes on their way at once; two of them, so that disk and link work side by side


class DeviceArray:
    """Elements in the memory of a card, in C order. Made by `fetch`.

    CuPy, PyTorch and JAX take it as it is, by DLPack (``torch.from_dlpack(x)``) or the array interface of
    CUDA (``cupy.asarray(x)``). All elements are there: no stream need be waited for. The memory goes with the
    last that holds it.
    """

    __module__ = "flagstone"

    def __init__(
        self, block: _core.DeviceBlock, shape: tuple[int, ...], dtype: DTypeLike, ordinal: int
    ) -> None:
        self._block = block
        self._ordinal = ordinal
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def device(self) -> str:
        """Where it lies: "cuda:0"."""
        return f"cuda:{self._ordinal}"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What CuPy and Numba read."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._block.address if self.nbytes else 0, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule for `from_dlpack`; nothing is copied."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(
                f"fetch: the elements are in the memory of {self.device}; copies are others' affair."
            )
        return self._block.dlpack(self._ordinal, self.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's number of CUDA, and which card."""
        return 2, self._ordinal

    def to_numpy(self) -> NDArray[Any]:
        """Return the elements as an ndarray, copied back."""
        out = np.empty(self.shape, self.dtype)
        if self.nbytes:
            self._block.copy_to(out)
        return out

    def __repr__(self) -> str:
        return f"<flagstone.DeviceArray {shape_text(self.shape)} {self.dtype.name} on {self.device}>"


def fetch(
    X: Array, region: Key | Region | None = None, *, device: str = "cuda:0", memory: int | str | None = None
) -> DeviceArray:
    """Bring a box of an array into the memory of a card.

    Pieces of whole chunks are read into two buffers that are locked in place, and copied from there to where
    they belong, by one strided copy each: the box is never packed on the host, and reading goes on meanwhile.

    Parameters
    ----------
    X : Array
        Any array, on disk or computed.
    region : index or Region, optional
        Integers and slices without steps, as in ``X[2, 100:200]``, or a `Region`. Default: all of it.
    device : str
        "cuda:0".
    memory : int or str, optional
        Most bytes that this process may hold meanwhile. Default: the runtime's.

    Returns
    -------
    DeviceArray
        For ``cupy.asarray``, ``torch.from_dlpack`` and ``jax.dlpack.from_dlpack``. Integers drop their
        dimension.

    Raises
    ------
    DeviceError
        Where the card is not there, or has no room.
    ShapeError
        For a region that is no box of the array, or a device that is none.
    BudgetError
        Where two pieces do not fit the limit; before anything is read.

    Notes
    -----
    Reads each chunk that the box touches once. Memory of the host: two pieces of 16 MiB, or of one chunk.
    The delivery of N-dimensional storage to accelerators is after NDS (Liu and Tseng, MICRO 2021).

    Examples
    --------
    >>> block = fl.fetch(X, (slice(0, 4096), slice(8192, 12288)))
    >>> torch.from_dlpack(block) @ weights
    """
    ordinal = _ordinal(device)
    if not isinstance(X, Array):
        raise ShapeError(f"fetch: {shown(X)} is no array of Flagstone; fl.open or fl.from_numpy makes one.")
    box = _box(X, region)
    call = Call("fetch", memory, light=True)
    item = X.dtype.itemsize
    step = _steps(X, box, item)
    most = math.prod(min(n, s) for n, s in zip(box.shape, step, strict=True)) * item
    call.room("two pieces", 2 * most + _core.bytes_beside_read(X._core, most))
    block = _core.DeviceBlock(
        _core.open_cuda_memory(ordinal, max(1, box.count * item)), box.shape, X.dtype.name
    )
    bring(X, call, box, step, block)
    return DeviceArray(block, tuple(box.kept), X.dtype, ordinal)


def bring(X: Array, call: Call, box: BasicIndexer, step: list[int], block: _core.DeviceBlock) -> None:
    """Copy a box into a block, piece by piece."""
    most = math.prod(min(n, s) for n, s in zip(box.shape, step, strict=True))
    if box.count == 0:
        return
    buffers = [empty((most,), X.dtype) for _ in range(2)]
    for buffer in buffers:
        block.lock(buffer)
    try:
        for number, (start, shape) in enumerate(_pieces(box, step)):
            slot = number % 2
            block.wait(slot)
            part = buffers[slot][: math.prod(shape)].reshape(shape)
            read(X, call, [(start, part)], STAGING)
            block.begin_copy(slot, part, [s - o for s, o in zip(start, box.start, strict=True)])
    finally:
        for slot in range(2):
            block.wait(slot)


def _ordinal(device: object) -> int:
    found = re.fullmatch(r"cuda(?::(\d{1,3}))?", device) if isinstance(device, str) else None
    if found is None:
        raise ShapeError(
            f"fetch: device is {shown(device)}; other libraries take what lies on a card, 'cuda:0'."
        )
    ordinal = int(found[1] or 0)
    cards, why_not = _core.cuda_devices()
    if ordinal >= len(cards):
        raise DeviceError(
            f"fetch: cuda:{ordinal} is not there: {why_not or f'this machine has {len(cards)} cards'}"
        )
    return ordinal


def _box(X: Array, region: Key | Region | None) -> BasicIndexer:
    if isinstance(region, Region):
        if region.array is not X or any(region.halo):
            raise ShapeError("fetch: the region is of another array, or has a halo; give a box of this one.")
        region = tuple(slice(s, s + n) for s, n in zip(region.start, region.shape, strict=True))
    box = BasicIndexer(... if region is None else region, X.shape)
    if box.strided or box.flips:
        raise ShapeError("fetch: slices with steps are not boxes; use slices of step 1.")
    return box


def _steps(X: Array, box: BasicIndexer, item: int) -> list[int]:
    """Return extents of pieces: whole chunks, as many as a piece holds, the last dimensions first."""
    chunks = X.chunks or X.shape
    step = [max(1, min(c, _PIECE // item)) for c in chunks]
    if all(c >= n for c, n in zip(chunks, X.shape, strict=True)):  # flat: any rows
        step = [1] * len(step)
    for d in reversed(range(len(step))):
        held = math.prod(min(n, s) for n, s in zip(box.shape, step, strict=True)) * item
        step[d] *= max(1, min(-(-X.shape[d] // step[d]), _PIECE // max(1, held)))
    return step


def _pieces(box: BasicIndexer, step: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield start and extents of what each cell of a grid has of the box."""
    cuts = []
    for start, extent, each in zip(box.start, box.shape, step, strict=True):
        edges = [start, *range((start // each + 1) * each, start + extent, each), start + extent]
        cuts.append(list(itertools.pairwise(edges)))
    for cell in itertools.product(*cuts):
        yield [a for a, _ in cell], [b - a for a, b in cell]
