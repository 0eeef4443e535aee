"""The chunks of an array as a small picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["chunk_picture"]

_SIDE = 120.0  # pixels of the longer side
_THIN = 12.0  # of the shorter one at least: a tall matrix must be seen
_LINES = 24  # between chunks, along one side: more of them are grey


def chunk_picture(shape: Sequence[int], chunks: Sequence[int]) -> str:
    """Return an SVG of the last two dimensions, cut into chunks; "" of what has no elements or dimensions.

    At most 2 x 24 lines: where there are more chunks, every so many of them.
    """
    if not shape or 0 in shape:
        return ""
    extents = (1, *shape)[-2:]
    pieces = (1, *chunks)[-2:]
    high, wide = (max(_THIN, _SIDE * extent / max(extents)) for extent in extents)
    down = "".join(f"M0 {y:.1f}H{wide:.1f}" for y in _cuts(extents[0], pieces[0], high))
    across = "".join(f"M{x:.1f} 0V{high:.1f}" for x in _cuts(extents[1], pieces[1], wide))
    before = "".join(f"{extent} x " for extent in shape[:-2])
    title = f"{before}{extents[0]} x {extents[1]}" if len(shape) > 1 else str(extents[1])
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{wide + 2:.0f}' height='{high + 2:.0f}' "
        f"viewBox='-1 -1 {wide + 2:.1f} {high + 2:.1f}' role='img' aria-label='chunks of {title}'>"
        f"<rect width='{wide:.1f}' height='{high:.1f}' fill='currentColor' fill-opacity='0.12'/>"
        f"<path d='{down}{across}M0 0H{wide:.1f}V{high:.1f}H0Z' fill='none' stroke='currentColor' "
        "stroke-width='0.7'/></svg>"
    )


def _cuts(extent: int, piece: int, side: float) -> Iterator[float]:
    count = -(-extent // max(1, piece))
    every = -(-count // _LINES)
    for at in range(every, count, every):
        yield side * min(extent, at * piece) / extent
