"""Expressions as loops over a row, in LLVM's language: one IEEE operation a verb, no fast-math flags."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._expression.expression import Expression
from ..._expression.program import ordered

__all__ = ["Row", "row_loop"]

Row = tuple[str, list[int], int]  #: what a row is of (neighbour, before, coefficient), where, which one

_FLOATS = {"float32": "float", "float64": "double"}
_TWO_FLOATS = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_TWO_INTEGERS = {"add": "add", "subtract": "sub", "multiply": "mul"}
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_COMPARED = {  # of floats, of signed and of unsigned integers
    "equal": ("oeq", "eq", "eq"), "not_equal": ("une", "ne", "ne"),
    "less": ("olt", "slt", "ult"), "less_equal": ("ole", "sle", "ule"),
}  # fmt: skip
_ROUNDED = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "absolute": "fabs",
}


class _Unknown(Exception):
    """A verb or a dtype that has no one instruction."""


def _type(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    if dtype.kind == "b":
        return "i1"
    if dtype.name not in _FLOATS:
        raise _Unknown
    return _FLOATS[dtype.name]


def _literal(value: Any) -> str:
    """Return a constant; floats by their bits as a double, which holds every float32."""
    if value.dtype.kind == "f":
        _type(value.dtype)
        return "0x" + struct.pack(">d", float(value)).hex().upper()
    return str(int(value))


class _Loop:
    """The instructions of one pass of the loop."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rows: list[Row] = []
        self.loads: dict[Any, str] = {}

    def add(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def load(self, node: Expression) -> str:
        """Return the element that a leaf is; neighbours of one row share its address."""
        if node.payload not in self.loads:
            kind, offset, number = node.payload
            dtype = _type(node.dtype)
            row = (kind, [*offset[:-1], 0], number)
            if row not in self.rows:
                self.rows.append(row)
            place = self.add(f"add i64 %i, {offset[-1]}") if offset[-1] else "%i"
            at = self.add(f"getelementptr {dtype}, ptr %p{self.rows.index(row)}, i64 {place}")
            self.loads[node.payload] = self.add(
                f"load {dtype}, ptr {at}, align {node.dtype.itemsize}, !llvm.access.group !1"
            )
        return self.loads[node.payload]

    def cast(self, value: str, of: np.dtype[Any], to: np.dtype[Any]) -> str:
        """Return a value converted as C does it; floats to integers are left to the fused kernel."""
        if of == to:
            return value
        a, b = _type(of), _type(to)
        if to.kind == "b":
            test = "fcmp une" if of.kind == "f" else "icmp ne"
            return self.add(f"{test} {a} {value}, {'0.0' if of.kind == 'f' else '0'}")
        if of.kind == "f":
            if to.kind != "f":
                raise _Unknown
            return self.add(f"{'fpext' if to.itemsize > of.itemsize else 'fptrunc'} {a} {value} to {b}")
        if to.kind == "f":
            return self.add(f"{'sitofp' if of.kind == 'i' else 'uitofp'} {a} {value} to {b}")
        if of.kind != "b" and of.itemsize == to.itemsize:
            return value
        if of.kind != "b" and of.itemsize > to.itemsize:
            return self.add(f"trunc {a} {value} to {b}")
        return self.add(f"{'sext' if of.kind == 'i' else 'zext'} {a} {value} to {b}")

    def two(self, verb: str, dtype: np.dtype[Any], a: str, b: str) -> str:
        """Return a verb of two operands of one dtype."""
        kind, of = dtype.kind, _type(dtype)
        if verb in _COMPARED and kind != "b":
            ordering = _COMPARED[verb]["fiu".index(kind)]
            return self.add(f"{'fcmp' if kind == 'f' else 'icmp'} {ordering} {of} {a}, {b}")
        if verb in _BITS and kind != "f":
            return self.add(f"{_BITS[verb]} {of} {a}, {b}")
        if verb in ("maximum", "minimum") and kind != "b":
            return self.largest(verb == "maximum", dtype, a, b)
        known = {"f": _TWO_FLOATS, "i": _TWO_INTEGERS, "u": _TWO_INTEGERS}.get(kind, {})
        if verb not in known:
            raise _Unknown
        return self.add(f"{known[verb]} {of} {a}, {b}")

    def largest(self, most: bool, dtype: np.dtype[Any], a: str, b: str) -> str:
        """Return the larger (smaller) of two: of floats the first one where it is NaN or both are equal."""
        of, pair = _type(dtype), (b, a) if most else (a, b)
        first = self.two("less_equal", dtype, *pair)
        if dtype.kind == "f":
            first = self.add(f"or i1 {first}, {self.one('isnan', dtype, a)}")
        return self.add(f"select i1 {first}, {of} {a}, {of} {b}")

    def one(self, verb: str, dtype: np.dtype[Any], a: str) -> str:
        """Return a verb of one operand."""
        kind, of = dtype.kind, _type(dtype)
        if verb == "square" and kind != "b":
            return self.two("multiply", dtype, a, a)
        if verb == "negative" and kind != "b":
            return self.add(f"fneg {of} {a}" if kind == "f" else f"sub {of} 0, {a}")
        if verb == "invert" and kind != "f":
            return self.add(f"xor {of} {a}, {'true' if kind == 'b' else '-1'}")
        if kind != "f":
            raise _Unknown
        if verb == "reciprocal":
            return self.add(f"fdiv {of} 1.0, {a}")
        if verb == "isnan":
            return self.add(f"fcmp uno {of} {a}, {a}")
        if verb not in _ROUNDED:
            raise _Unknown
        return self.add(f"call {of} @llvm.{_ROUNDED[verb]}.f{8 * dtype.itemsize}({of} {a})")

    def verb(self, node: Expression, values: list[str]) -> str:
        """Return the value of a node whose operands have theirs."""
        if node.verb == "cast":
            return self.cast(values[0], node.args[0].dtype, node.dtype)
        if node.verb == "select":
            of = _type(node.dtype)
            return self.add(f"select i1 {values[0]}, {of} {values[1]}, {of} {values[2]}")
        make: Callable[..., str] = self.one if len(values) == 1 else self.two
        if len(values) > 2:
            raise _Unknown
        return make(node.verb, node.args[0].dtype, *values)


def row_loop(roots: Sequence[Expression], dtype: np.dtype[Any]) -> tuple[str, list[Row]] | None:
    """Return ``void row(i64 n, ptr to, ptr rows)``, and what each of the rows is; None: no such loop.

    ``to[m]`` is the row that expression m is for. A neighbour of a row lies beside the address that is given
    for it. No pass of the loop depends on another: a result may be the step before, which is read at the
    point itself, and is no field that neighbours are of.
    """
    loop = _Loop()
    values: dict[int, str] = {}
    nodes = {id(node): node for root in roots for node in ordered(root)}
    try:
        for node in nodes.values():
            if node.verb == "leaf":
                values[id(node)] = loop.load(node)
            elif node.verb == "constant":
                values[id(node)] = _literal(node.payload)
            else:
                values[id(node)] = loop.verb(node, [values[id(a)] for a in node.args])
        results, to = [loop.cast(values[id(r)], r.dtype, dtype) for r in roots], _type(dtype)
    except _Unknown:
        return None
    stores = "\n".join(
        f"  %place{m} = getelementptr {to}, ptr %t{m}, i64 %i\n"
        f"  store {to} {result}, ptr %place{m}, align {dtype.itemsize}, !llvm.access.group !1"
        for m, result in enumerate(results)
    )
    return _TEXT.format(
        addresses="\n".join([*_addresses("to", "t", len(roots)), *_addresses("rows", "p", len(loop.rows))]),
        passes="\n".join([*loop.lines, stores]),
        declared="\n".join(
            f"declare {t} @llvm.{name}.{s}({t})"
            for name in sorted(set(_ROUNDED.values())) for t, s in (("float", "f32"), ("double", "f64"))
        ),
    ), loop.rows  # fmt: skip


def _addresses(table: str, each: str, number: int) -> Iterator[str]:
    """Yield the instructions that load so many addresses of a table."""
    for k in range(number):
        yield f"  %a{each}{k} = getelementptr ptr, ptr %{table}, i64 {k}"
        yield f"  %{each}{k} = load ptr, ptr %a{each}{k}"


_TEXT = """
define void @row(i64 %n, ptr %to, ptr %rows) {{
entry:
{addresses}
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{passes}
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done, !llvm.loop !0
done:
  ret void
}}
{declared}
!0 = distinct !{{!0, !2}}
!1 = distinct !{{}}
!2 = !{{!"llvm.loop.parallel_accesses", !1}}
"""
