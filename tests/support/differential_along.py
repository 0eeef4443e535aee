"""The other half of the random calls: joins and places, scans, order statistics, bins, groups, masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import flagstone as fl
from tests.expressions.test_elementwise import ALL, values
from tests.support.differential_cases import Case, Random, array, chunks_of, kept, one_of, shape_of

REAL = [name for name in ALL if np.dtype(name).kind in "biuf"]
WIDE = [name for name in REAL if name != "float16"]


def drawn(random: Random, folder: Path, dtypes: list[str], dims: int = 0) -> tuple[Any, np.ndarray]:
    """An operand that is kept somewhere, and NumPy's; of `dims` dimensions, or of one to three."""
    x = values(random, shape_of(random, dims or int(random.integers(1, 4))), one_of(random, dtypes))
    return array(kept(random, x, folder, "x")), x


def exactly(wanted: Any) -> Any:
    def check(got: Any) -> None:
        got, expected = np.asarray(got), np.asarray(wanted)
        assert got.shape == expected.shape, f"{got.shape} for {expected.shape}"
        assert got.dtype == expected.dtype, f"{got.dtype} for {expected.dtype}"
        np.testing.assert_array_equal(got, expected)

    return check


def each(*wanted: Any) -> Any:
    def check(got: Any) -> None:
        for one, expected in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(one), expected)

    return check


def placing(random: Random, folder: Path) -> Case:
    """Arrays put together or seen elsewhere, loaded whole or as the operand of an expression."""
    ours, x = drawn(random, folder, ALL)
    axis = int(random.integers(-x.ndim, x.ndim))
    name = one_of(
        random, ["concat", "stack", "flip", "roll", "repeat", "tile", "expand_dims", "broadcast_to"]
    )
    if name in ("concat", "stack"):
        other = values(random, x.shape, one_of(random, [x.dtype.name, "float64"]))
        both = [ours, array(kept(random, other, folder, "y"))]
        lazy = getattr(fl, name)(both, axis=axis)
        wanted = (np.concatenate if name == "concat" else np.stack)([x, other], axis=axis)
    else:
        arguments = {
            "flip": (axis,), "roll": (int(random.integers(-9, 10)), axis), "repeat": (2, axis),
            "tile": (tuple(int(n) for n in random.integers(1, 3, x.ndim)),), "expand_dims": (axis,),
            "broadcast_to": ((2, *x.shape),),
        }[name]  # fmt: skip
        lazy, wanted = getattr(fl, name)(ours, *arguments), getattr(np, name)(x, *arguments)
    if random.random() < 0.5:
        out = str(folder / "out.zarr")
        return Case(
            f"{name} {x.shape} stored", lambda m: fl.compute(lazy == lazy, out=out, memory=m),
            exactly(wanted == wanted),
        )  # fmt: skip

    def call(memory: int) -> Any:
        with fl.Runtime(memory=memory):
            return np.asarray(lazy)

    return Case(f"{name} {x.shape}, axis {axis}", call, exactly(wanted))


def scan(random: Random, folder: Path) -> Case:
    ours, x = drawn(random, folder, REAL)
    axis = int(random.integers(-x.ndim, x.ndim))
    name = one_of(random, ["cumulative_sum", "cumulative_prod", "diff"])
    out = None if random.random() < 0.5 else str(folder / one_of(random, ["out.zarr", "out.npy"]))
    options: dict[str, Any] = {"axis": axis}
    if name == "diff":
        options["n"] = int(random.integers(0, 3))
    else:
        options["include_initial"] = bool(random.random() < 0.3)
    wanted = getattr(np, name)(x, **options)
    return Case(
        f"{name} {x.shape} {x.dtype} {options} -> {out and Path(out).name}",
        lambda m: getattr(fl, name)(ours, **options, out=out, memory=m), exactly(wanted),
    )  # fmt: skip


def rank(random: Random, folder: Path) -> Case | None:
    ours, x = drawn(random, folder, WIDE)
    if x.size == 0 or x.dtype.kind == "b":
        return None
    axis = one_of(random, [None, *range(x.ndim)])
    keepdims = bool(random.random() < 0.3)
    if random.random() < 0.4:
        wanted = np.median(x, axis, keepdims=keepdims)
        return Case(
            f"median {x.shape} {x.dtype}, {axis}",
            lambda m: fl.median(ours, axis, keepdims=keepdims, memory=m), exactly(wanted),
        )  # fmt: skip
    q = random.random(int(random.integers(1, 4)))
    method = one_of(random, ["linear", "lower", "higher", "nearest", "midpoint"])
    wanted = np.quantile(x, q, axis, method=method, keepdims=keepdims)
    return Case(
        f"quantile {x.shape} {x.dtype}, {axis}, {method}",
        lambda m: fl.quantile(ours, q, axis, method=method, keepdims=keepdims, memory=m), exactly(wanted),
    )  # fmt: skip


def binning(random: Random, folder: Path) -> Case | None:
    name = one_of(random, ["histogram", "bincount", "digitize", "isin", "nonzero", "take"])
    if name == "bincount":
        x = random.integers(0, 50, shape_of(random, 1))
        ours = array(kept(random, x, folder, "x"))
        if random.random() < 0.5:
            w = random.integers(-9, 9, x.shape).astype(one_of(random, ["int8", "float32", "float64"]))
            # Weighted counts are float64; of no elements NumPy's are integers.
            W, wanted = array(kept(random, w, folder, "w")), np.bincount(x, w).astype(np.float64)
            return Case(
                f"bincount {x.shape}, weights", lambda m: fl.bincount(ours, W, memory=m), exactly(wanted)
            )
        return Case(f"bincount {x.shape}", lambda m: fl.bincount(ours, memory=m), exactly(np.bincount(x)))
    ours, x = drawn(random, folder, WIDE)
    if name == "nonzero":
        if 8 * x.size * x.ndim > 4 << 20:  # how many there are is known after they were counted
            return None
        return Case(f"nonzero {x.shape}", lambda m: fl.nonzero(ours, memory=m), each(*np.nonzero(x)))
    if name == "take":
        axis = int(random.integers(x.ndim))
        if x.shape[axis] == 0 or x.size == 0:
            return None
        chosen = random.integers(-x.shape[axis], x.shape[axis], int(random.integers(1, 20)))
        wanted = np.take(x, chosen, axis)
        return Case(f"take {x.shape}", lambda m: fl.take(ours, chosen, axis, memory=m), exactly(wanted))
    if name == "isin":
        some = np.unique(values(random, (20,), x.dtype.name))
        if x.dtype == np.uint64:  # beyond 2^63 is refused, in a sentence
            return None
        return Case(f"isin {x.shape}", lambda m: fl.isin(ours, some, memory=m), exactly(np.isin(x, some)))
    edges = np.sort(random.normal(size=int(random.integers(2, 12)))) * 100
    if name == "digitize":
        if x.dtype.kind == "b":
            return None
        return Case(
            f"digitize {x.shape}",
            lambda m: fl.digitize(ours, edges, memory=m),
            exactly(np.digitize(x, edges)),
        )
    if x.dtype.kind == "b":
        return None
    wanted = np.histogram(x, edges)
    return Case(f"histogram {x.shape}", lambda m: fl.histogram(ours, edges, memory=m), each(*wanted))


def grouping(random: Random, folder: Path) -> Case | None:
    ours, x = drawn(random, folder, [name for name in WIDE if np.dtype(name).kind in "iu"])
    if x.shape[0] == 0:
        return None
    labels, groups = random.integers(-1, 7, x.shape[0]), 8
    if x.ndim == 2 and 0 not in x.shape and random.random() < 0.5:
        import scipy.sparse as sp

        ours = fl.from_blocks([sp.csr_matrix(x)], str(folder / "s.zarr"))
    wanted = np.stack([x[labels == g].sum(0) for g in range(groups)])
    return Case(
        f"group_sum {x.shape} {x.dtype}",
        lambda m: fl.group_sum(ours, labels, groups=groups, memory=m), exactly(wanted),
    )  # fmt: skip


def masking(random: Random, folder: Path) -> Case:
    """A lazy mask, or a mask of NumPy's; sometimes in an array that zarr-python made."""
    x = values(random, shape_of(random, int(random.integers(1, 4))), one_of(random, WIDE))
    place = folder / "x.zarr"
    if random.random() < 0.4 and 0 not in x.shape:
        import zarr

        options = {"zarr_format": int(random.integers(2, 4)), "chunks": chunks_of(random, x.shape)}
        zarr.create_array(place, shape=x.shape, dtype=x.dtype, **options)[...] = x
        ours = fl.open(place, mode="r+", decode=False)
    else:
        ours = fl.create(place, x.shape, x.dtype, chunks=chunks_of(random, x.shape), fill_value=1)
        ours[...] = x
    wanted = x.copy()
    with np.errstate(all="ignore"):
        wanted[x > 0] = 1

    def call(memory: int) -> Any:
        with fl.Runtime(memory=memory):
            ours[ours > 0] = 1
        return fl.open(place, decode=False)

    return Case(f"x[x > 0] = 1, {x.shape} {x.dtype}", call, exactly(wanted))


def storing(random: Random, folder: Path) -> Case:
    x = values(random, shape_of(random, int(random.integers(1, 4))), one_of(random, ALL))
    dtype = one_of(random, [x.dtype.name, "float64"]) if x.dtype.kind != "c" else x.dtype.name
    chunks, place = chunks_of(random, x.shape), str(folder / "x.zarr")

    def call(memory: int) -> Any:
        with fl.Runtime(memory=memory):
            return fl.from_numpy(x, place, chunks=chunks, dtype=dtype, fill_value=1)

    return Case(f"from_numpy {x.shape} {x.dtype} as {dtype}", call, exactly(x.astype(dtype)))


FAMILIES = [placing, placing, scan, rank, binning, grouping, masking, storing]
