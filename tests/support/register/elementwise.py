"""Operators, element-wise functions and reductions: lazy, what computes them; functions of users on tiles."""

from __future__ import annotations

import operator

import numpy as np

import flagstone as fl
from flagstone._expression.functions import __all__ as NAMED

from .data import SIDE
from .entry import entry

BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"),
    *("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "lshift", "rshift"),
)
REFLECTED = tuple(one for one in BINARY if one not in ("lt", "le", "gt", "ge", "eq", "ne"))
UNARY = ("abs", "neg", "pos", "invert")
WHOLE = ("and", "or", "xor", "lshift", "rshift", "invert")  # of whole numbers
OPERATORS = (*(f"__{one}__" for one in (*BINARY, *UNARY)), *(f"__r{one}__" for one in REFLECTED))
REDUCTIONS = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")


def applied(x, name: str):
    """An operator by its method's name."""
    word = name.strip("_")
    if word in UNARY:
        return getattr(operator, "inv" if word == "invert" else word)(x)
    plain = word if word in BINARY else word[1:]
    function = getattr(operator, f"{plain}_" if plain in ("and", "or") else plain)
    return function(x, 2) if word in BINARY else function(2, x)


def operand(name: str) -> fl.Array:
    """One that the operator takes."""
    return fl.open("ints.npy" if any(one in name for one in WHOLE) else "a.npy")


@entry("operators of arrays", "Array.{}", variants=OPERATORS)
def of_arrays(name):
    e = applied(operand(name), name)
    return lambda: fl.compute(e.any())


@entry("operators of expressions", "Expression.{}", variants=OPERATORS)
def of_expressions(name):
    e = applied(abs(operand(name)), name)
    return lambda: fl.compute(e.any())


@entry("operators of reductions", "Reduced.{}", variants=OPERATORS)
def of_reductions(name):
    a = operand(name)
    return lambda: applied(a.max(0), name)


@entry("methods of arrays", "Array.{}", variants=(*REDUCTIONS, "astype", "clip", "round"))
def methods(name):
    return method_of(fl.open("a.npy"), name)


@entry("methods of expressions", "Expression.{}", variants=(*REDUCTIONS, "astype", "clip", "round"))
def methods_of_expressions(name):
    return method_of(fl.open("small.zarr") + 1, name)


@entry("methods of reductions", "Reduced.{}", variants=(*REDUCTIONS, "astype", "clip", "round"))
def methods_of_reductions(name):
    a = fl.open("a.npy")
    return lambda: method_of(a.max(0), name)()


def method_of(x, name: str):
    """The call of a method; what it gives is computed."""
    if name in REDUCTIONS:
        return lambda: np.asarray(getattr(x, name)(0) if x.ndim > 1 else getattr(x, name)())
    arguments = {"astype": ("float64",), "clip": (-1, 1), "round": (1,)}[name]
    return lambda: np.asarray(getattr(x, name)(*arguments).max())


@entry(
    "reductions along each axis", variants=tuple(f"{n} {a}" for n in ("f.npy", "stripes.zarr") for a in "01")
)
def along(case):
    name, axis = case.split()
    a = fl.open(name)
    return lambda: fl.compute(a.sum(int(axis)), a.var(int(axis)))


@entry("functions", "{}", variants=tuple(NAMED))
def functions(name):
    a = fl.open("z.npy") if name in ("conj", "real", "imag") else operand("invert")
    a = a if name.startswith(("bitwise", "logical")) or name in ("conj", "real", "imag") else fl.open("a.npy")
    function = getattr(fl, name)

    def compute():
        try:
            e = function(a)
        except (TypeError, ValueError):
            e = function(a > 0, a, 1) if name == "where" else function(a, 2)
        return np.asarray(e if getattr(e, "ndim", 0) == 0 or name in REDUCTIONS else e[:100])

    with np.errstate(all="ignore"):
        return compute


@entry(
    "expression[key]", "Expression.__getitem__", "Reduced.__getitem__", variants=("rows", "steps", "reduced")
)
def parts(kind):
    e = fl.open("small.zarr") + 1
    if kind == "reduced":
        return lambda: e.sum(0)[:5]
    key = np.s_[:1000] if kind == "rows" else np.s_[::2, ::3]
    return lambda: e[key]


@entry(
    "np.asarray(expression)", "Expression.__array__", "Reduced.__array__", variants=("expression", "reduced")
)
def asarray(kind):
    e = fl.open("a.zarr") * 2
    return (lambda: np.asarray(e)) if kind == "expression" else lambda: np.asarray(e.sum(0))


@entry("numbers", "{}", variants=tuple(
    f"{c}.__{n}__" for c in ("Array", "Expression", "Reduced")
    for n in ("bool", "complex", "float", "index", "int")
))  # fmt: skip
def numbers(name):
    kind, _, method = name.partition(".")
    a = fl.open("ints.npy")
    word = method.strip("_")
    take = (
        operator.index
        if word == "index"
        else {"bool": bool, "complex": complex, "float": float, "int": int}[word]
    )
    if kind == "Reduced":
        return lambda: take(a.max())
    one = fl.from_numpy(np.array(3))
    return lambda: take(one if kind == "Array" else one + 1)


@entry("NumPy's functions", "{}", variants=tuple(
    f"{c}.__array_{n}__" for c in ("Array", "Expression", "Reduced") for n in ("function", "ufunc")
))  # fmt: skip
def numpy_functions(name):
    kind, _, method = name.partition(".")
    a = fl.open("a.npy")

    def call():
        x = a if kind == "Array" else a + 1 if kind == "Expression" else a.max(0)
        return np.asarray(np.sum(x) if "function" in method else np.add(x, 1).max())

    return call


@entry("compute", "compute", variants=("npy", "zarr", "layouts", "memory"))
def compute(kind):
    a = fl.open("a.zarr")
    if kind == "npy":
        return lambda: fl.compute(a + 1, out="computed.npy")
    if kind == "zarr":
        return lambda: fl.compute(fl.log1p(abs(a) * 3), out="computed.zarr")
    e = a + (np.load("a.npy") if kind == "memory" else fl.open("f.npy") + fl.open("stripes.zarr").T)
    return lambda: fl.compute(e, out="computed.zarr")


@entry("compute(memmap)", variants=("r", "c", "fortran", "strided", "rows"))
def compute_memmap(kind):
    m = np.load("f.npy" if kind == "fortran" else "a.npy", mmap_mode="c" if kind == "c" else "r")
    m = m[:, ::2] if kind == "strided" else m[100:] if kind == "rows" else m
    return lambda: fl.compute(fl.add(m, 1).sum(0))


@entry("map_tiles", "map_tiles", "map_blocks", variants=("tiles", "blocks", "halo"))
def maps(kind):
    a = fl.open("a.zarr")
    if kind == "tiles":
        return lambda: fl.map_tiles(np.abs, a, out="mapped.zarr", scratch="1MiB")
    halo = 2 if kind == "halo" else 0
    return lambda: fl.map_blocks(np.abs, a, block=(512, 512), halo=halo, out="mapped.zarr", scratch="2MiB")


@entry("fold", "fold", variants=("scalars", "large"))
def fold(kind):
    a = fl.open("a.npy")
    if kind == "scalars":
        return lambda: fl.fold(lambda x: x.sum(), np.add, a, scratch="1MiB")
    return lambda: fl.fold(lambda x: x.sum(0), np.add, a, scratch="1MiB", partial=SIDE * 4)


@entry(
    "graph",
    "graph",
    "Graph.add",
    "Graph.run",
    "Graph.plan",
    "{}",
    variants=("read", "write", "update", "reduce"),
)
def graph(verb):
    a = fl.open("a.zarr")
    b = fl.create("tasks.zarr", a.shape, a.dtype, chunks=a.chunks, overwrite=True)
    total = fl.create("total.zarr", a.chunks, a.dtype, chunks=a.chunks, overwrite=True)

    def work(x, y):
        y[...] = 1

    def run():
        with fl.graph() as g:
            for i in range(a.tiles[0]):
                for j in range(a.tiles[1]):
                    where = total.tiles[0, 0] if verb == "reduce" else b.tiles[i, j]
                    access = fl.write if verb == "read" else getattr(fl, verb)
                    g.add(work, fl.read(a.tiles[i, j]), access(where))

    return run
