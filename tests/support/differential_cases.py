"""What `differential.py` draws from: trees of operations, reductions, selections, products, loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import flagstone as fl
from flagstone._array.handle import is_transposed
from tests.expressions.test_elementwise import ALL, values
from tests.expressions.test_reductions import REDUCTIONS, check_reduction
from tests.support.processes import KINDS, acceptance, random_matrix, stored

Random = np.random.Generator
LARGEST = 3 << 18  # elements


class Case(NamedTuple):
    """What was drawn: what it is called, the call under a limit, and what is thought of its result."""

    name: str
    call: Callable[[int], Any]
    check: Callable[[Any], None]


def one_of(random: Random, choices: Any) -> Any:
    return choices[int(random.integers(len(choices)))]


# Operands ---------------------------------------------------------------------------------------------------


def shape_of(random: Random, dims: int) -> tuple[int, ...]:
    """Mostly small and ragged, sometimes empty, sometimes some MiB, long one way."""
    if random.random() < 0.05:
        return tuple(int(n) for n in random.integers(0, 3, dims))
    most = int(10 ** random.uniform(0.5, np.log10(LARGEST)))
    shares = random.dirichlet(np.ones(dims)) * np.log(most)
    return tuple(max(1, round(float(np.exp(share)))) for share in shares)


def chunks_of(random: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """At most some thousand chunks."""
    while True:
        chunks = tuple(int(np.ceil(max(1, n) ** random.uniform(0.3, 1.0))) for n in shape)
        if np.prod([-(-n // c) for n, c in zip(shape, chunks, strict=True)]) <= 2000:
            return chunks


def kept(random: Random, x: np.ndarray, folder: Path, name: str) -> Any:
    """`x` as an operand: in memory, mapped, in a file, in chunks, packed or not; or a view of one."""
    kind = one_of(random, [*KINDS[:6], "chunks", "chunks", "packed", "memmap", "transposed"])
    path = folder / name
    if kind == "transposed" and x.ndim > 1:
        return kept(random, np.ascontiguousarray(x.T), folder, name + "t").T
    if kind == "memmap":
        np.save(path.with_suffix(".npy"), x)
        return np.load(path.with_suffix(".npy"), mmap_mode=one_of(random, ["r", "c"])) if x.size else x
    if kind in ("chunks", "packed", "transposed") or x.ndim != 2 or (x.size == 0 and kind.startswith("npy")):
        codec = one_of(random, ["zstd:1", "blosc-lz4", "gzip:1"]) if kind == "packed" else "raw"
        chunks = chunks_of(random, x.shape)
        array = fl.create(path.with_suffix(".zarr"), x.shape, x.dtype, chunks=chunks, codec=codec)
        array[...] = x
        return array
    return stored(x, kind, path)


def array(given: Any) -> Any:
    return given if isinstance(given, fl.Array) else fl.from_numpy(given)


# Operations -------------------------------------------------------------------------------------------------

EXACT_ONE = [np.negative, np.absolute, np.square, np.isnan, np.isfinite, np.floor, np.sign, np.logical_not]
EXACT_TWO = [
    np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.fmax, np.less, np.equal, np.greater_equal,
    np.logical_and, np.bitwise_xor, np.copysign,
]  # fmt: skip


def tree(random: Random, ours: list[Any], theirs: list[np.ndarray], depth: int) -> tuple[Any, Any, str]:
    """A random expression of operands: ours, NumPy's value of it, and its text."""
    if depth == 0 or random.random() < 0.15:
        at = int(random.integers(len(ours)))
        return ours[at], theirs[at], f"x{at}"
    pick = random.random()
    if pick < 0.3:
        f = one_of(random, EXACT_ONE)
        x, a, text = tree(random, ours, theirs, depth - 1)
        if a.dtype.kind == "c" and f in (
            np.absolute,
            np.square,
        ):  # rounded more than once
            f = np.negative
        return f(x), f(a), f"{f.__name__}({text})"
    if pick < 0.38:
        dtype = one_of(random, ["float32", "float64", "bool"])
        x, a, text = tree(random, ours, theirs, depth - 1)
        if a.dtype.kind == "c":
            return x, a, text
        return x.astype(dtype), a.astype(dtype), f"{text}.astype({dtype})"
    if pick < 0.46:
        scalar = one_of(random, [2, 0.5, -3])
        x, a, text = tree(random, ours, theirs, depth - 1)
        return x * scalar, a * scalar, f"({text} * {scalar})"
    x, a, left = tree(random, ours, theirs, depth - 1)
    y, b, right = tree(random, ours, theirs, depth - 1)
    if pick < 0.54:
        return fl.where(x > 0, x, y), np.where(a > 0, a, b), f"where({left} > 0, {left}, {right})"
    f = one_of(random, EXACT_TWO)
    return f(x, y), f(a, b), f"{f.__name__}({left}, {right})"


def operands(random: Random, folder: Path) -> tuple[list[Any], list[np.ndarray]]:
    """One to three operands of shapes that go together."""
    shape = shape_of(random, int(random.integers(1, 4)))
    theirs = []
    for _ in range(int(random.integers(1, 4))):
        own = tuple(1 if random.random() < 0.1 else n for n in shape)[int(random.random() < 0.1) :]
        theirs.append(values(random, own, one_of(random, ALL)))
    if random.random() < 0.7:  # of one dtype, as most are
        theirs = [x.astype(theirs[0].dtype) for x in theirs]
    ours = [array(kept(random, x, folder, f"x{i}")) for i, x in enumerate(theirs)]
    return ours, theirs


def expression(random: Random, folder: Path) -> Case | None:
    """A drawn expression; None where NumPy (or both) will not have it."""
    for _ in range(20):
        place = folder / str(random.integers(1 << 30))
        place.mkdir()
        ours, theirs = operands(random, place)
        try:
            x, a, text = tree(random, ours, theirs, int(random.integers(1, 4)))
        except (TypeError, OverflowError, fl.ShapeError):  # NumPy says no as well
            continue
        if isinstance(a, np.ndarray) and a.dtype.kind != "c":  # complex products: their own bound
            break
    else:
        return None
    if random.random() < 0.4 and a.ndim:
        return reduction(random, x, a, text)
    out = None if random.random() < 0.5 else str(folder / one_of(random, ["out.zarr", "out.npy"]))

    def check(got: Any) -> None:
        got = np.asarray(got)
        assert got.shape == a.shape
        assert got.dtype == a.dtype
        np.testing.assert_array_equal(got, a)

    return Case(f"{text} -> {out and Path(out).name}", lambda m: fl.compute(x, out=out, memory=m), check)


def reduction(random: Random, x: Any, a: np.ndarray, text: str) -> Case:
    name = one_of(random, REDUCTIONS)
    axis = one_of(random, [None, *range(a.ndim)])
    if 0 in a.shape:
        name = one_of(random, ["sum", "any", "all"])
    options = {"axis": axis, "keepdims": bool(random.random() < 0.3)}
    if name == "prod" and a.dtype.kind == "f":
        sizes = np.abs(a[np.isfinite(a) & (a != 0)].astype("f8"))
        if np.abs(np.log2(sizes)).sum() > 100:  # infinity times 0 on the way, or not: the order decides
            name = "sum"
    lazy = getattr(x, name)(**options)

    def check(got: Any) -> None:
        try:
            check_reduction(name, got, a, options)
        except AssertionError:  # its bounds are for small arrays: no farther off than NumPy is
            if a.dtype.kind not in "biu" or name not in ("var", "std"):
                raise
            exact = getattr(np, name)(a.astype(np.longdouble), **options)
            own = np.abs(getattr(np, name)(a, **options) - exact)
            assert (np.abs(np.asarray(got) - exact) <= own + 64 * np.finfo("f8").eps * exact).all()

    return Case(f"{name}({text}, {axis})", lambda m: fl.compute(lazy, memory=m), check)


def key_of(random: Random, shape: tuple[int, ...]) -> Any:
    """Slices either way and with steps, integers, lists, masks."""
    parts: list[Any] = []
    fancy = False
    for n in shape[: int(random.integers(1, len(shape) + 1))]:
        pick = random.random()
        if n and pick < 0.2:
            parts.append(int(random.integers(-n, n)))
        elif n and pick < 0.35 and not fancy:
            fancy = True
            parts.append(random.integers(-n, n, int(random.integers(0, 9))))
        elif n and pick < 0.45 and not fancy:
            fancy = True
            parts.append(random.random(n) < 0.5)
        else:
            a, b = (int(random.integers(-n - 1, n + 2)) for _ in range(2))
            parts.append(slice(a, b, one_of(random, [None, 1, 2, 3, -1, -2])))
    return tuple(parts)


def selection(random: Random, folder: Path) -> Case:
    x = values(random, shape_of(random, int(random.integers(1, 4))), one_of(random, ALL))
    ours, key = array(kept(random, x, folder, "x")), key_of(random, x.shape)
    integers = sum(isinstance(part, int) for part in key)
    fancy = any(isinstance(part, np.ndarray) for part in key)
    wanted = x[key] if not (fancy and integers) else None  # NumPy moves the dimension: ours documents where

    def call(memory: int) -> Any:
        with fl.Runtime(memory=memory):
            return ours[key]

    def check(got: Any) -> None:
        if wanted is not None:
            np.testing.assert_array_equal(got, wanted)
            assert np.asarray(got).dtype == x.dtype

    return Case(f"x[{key}]", call, check)


def assignment(random: Random, folder: Path) -> Case:
    x = values(random, shape_of(random, int(random.integers(1, 4))), one_of(random, ALL))
    codec = one_of(random, ["raw", "raw", "zstd:1"])
    ours = fl.create(folder / "x.zarr", x.shape, x.dtype, chunks=chunks_of(random, x.shape), codec=codec)
    ours[...] = x
    key = tuple(slice(None) if isinstance(part, np.ndarray) else part for part in key_of(random, x.shape))
    value = values(random, x[key].shape, x.dtype.name)
    wanted = x.copy()
    wanted[key] = value

    def call(memory: int) -> Any:
        with fl.Runtime(memory=memory):
            ours[key] = value
        return fl.open(folder / "x.zarr")

    return Case(f"x[{key}] = value", call, lambda got: np.testing.assert_array_equal(np.asarray(got), wanted))


def product(random: Random, folder: Path) -> Case:
    m, k, n = (int(10 ** random.uniform(0, 2.8)) for _ in range(3))
    dtype = one_of(random, ["float32", "float64", "complex64", "complex128"])
    a, b = random_matrix(random, (m, k), dtype), random_matrix(random, (k, n), dtype)
    A, B = kept(random, a, folder, "a"), kept(random, b, folder, "b")
    out = None if random.random() < 0.5 else str(folder / "out.zarr")

    def check(got: Any) -> None:
        assert acceptance(np.asarray(got), 1, a, b, 0, None, random) <= 3 * np.sqrt(max(k, 1)) + 10

    return Case(
        f"matmul {m} x {k} x {n} {dtype}", lambda limit: fl.matmul(A, B, out=out, memory=limit), check
    )


def whole_product(random: Random, folder: Path) -> Case:
    """Of integers or booleans, sometimes of two dtypes, sometimes of stacks: NumPy's bits."""
    m, k, n = (int(10 ** random.uniform(0, 2.2)) for _ in range(3))
    both = [one_of(random, [name for name in ALL if np.dtype(name).kind in "biu"]) for _ in range(2)]
    if np.result_type(*both).kind == "f":  # int64 and uint64: another rounding
        both[1] = both[0]
    lead = tuple(int(i) for i in random.integers(1, 4, int(random.integers(0, 3))))
    leads = [
        tuple(1 if random.random() < 0.2 else i for i in lead)[int(random.random() < 0.2) :] for _ in both
    ]
    a, b = values(random, (*leads[0], m, k), both[0]), values(random, (*leads[1], k, n), both[1])
    A, B = array(kept(random, a, folder, "a")), array(kept(random, b, folder, "b"))
    if a.ndim > 2 and isinstance(A, fl.Array) and is_transposed(A):
        A = fl.from_numpy(a)
    if b.ndim > 2 and isinstance(B, fl.Array) and is_transposed(B):
        B = fl.from_numpy(b)
    wanted = np.matmul(a, b)
    out = None if random.random() < 0.5 else str(folder / one_of(random, ["out.zarr", "out.npy"]))

    def check(got: Any) -> None:
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(got), wanted)

    text = f"matmul {a.shape} by {b.shape}, {both[0]} and {both[1]}"
    return Case(text, lambda limit: fl.matmul(A, B, out=out, memory=limit), check)


def restructuring(random: Random, folder: Path) -> Case:
    x = values(random, shape_of(random, int(random.integers(1, 4))), one_of(random, ALL))
    ours = array(kept(random, x, folder, "x"))
    codec, out = one_of(random, ["raw", "zstd:1"]), str(folder / "out.zarr")
    if random.random() < 0.5:
        chunks = chunks_of(random, x.shape)
        call = lambda m: fl.rechunk(ours, chunks, out=out, codec=codec, memory=m)  # noqa: E731
        wanted, text = x, f"rechunk {x.shape} to {chunks}"
    else:
        axes = tuple(int(n) for n in random.permutation(x.ndim))
        call = lambda m: fl.transpose(ours, axes, out=out, codec=codec, memory=m)  # noqa: E731
        wanted, text = x.transpose(axes), f"transpose {x.shape} by {axes}"
    return Case(text, call, lambda got: np.testing.assert_array_equal(np.asarray(got), wanted))


def loop(random: Random, folder: Path) -> Case:
    x = values(random, shape_of(random, int(random.integers(1, 4))), one_of(random, ALL))
    x = x[:300]
    ours = array(kept(random, x, folder, "x"))

    def call(memory: int) -> Any:
        with fl.Runtime(memory=memory):
            return list(ours)

    def check(got: Any) -> None:
        assert len(got) == len(x)
        for one, wanted in zip(got, x, strict=True):
            np.testing.assert_array_equal(one, wanted)

    return Case(f"list of {x.shape}", call, check)


FAMILIES = [*[expression] * 4, *[selection] * 2, assignment, product, whole_product, restructuring, loop]
