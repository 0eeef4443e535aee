"""Uses of private members across rooms of the Python package; counted by check_house.py."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from check_layers import Package


class Members(ast.NodeVisitor):
    """The private names that a module defines, and those that it uses of something other than itself."""

    def __init__(self) -> None:
        self.defined: set[str] = set()
        self.used: list[tuple[int, str, str]] = []  # line, of what, name
        self.foreign: set[str] = set()  # modules of others

    def define(self, name: str) -> None:
        if private(name):
            self.defined.add(name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.define(node.name)
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_ClassDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.define(node.id)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.foreign.add((alias.asname or alias.name).split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.level == 0:
                self.foreign.add(alias.asname or alias.name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        if private(node.attr):
            if own and isinstance(node.ctx, ast.Store):
                self.defined.add(node.attr)
            if not own:
                self.used.append((node.lineno, ast.unparse(node.value), node.attr))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`getattr(x, "_name")` is a use too."""
        called = getattr(node.func, "id", "")
        if called in {"getattr", "hasattr", "setattr"} and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and private(str(name.value)):
                self.used.append((node.lineno, ast.unparse(node.args[0]), str(name.value)))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == "__slots__":
                for name in ast.walk(node.value):
                    if isinstance(name, ast.Constant):
                        self.define(str(name.value))
        self.generic_visit(node)


#: What named tuples call their own, although it begins so.
NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make", "_field_defaults"}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in NAMED_TUPLES


@cache
def members_of(text: str) -> Members:
    found = Members()
    found.visit(ast.parse(text))
    return found


def reach_ins(top: Path, package: Package) -> list[str]:
    """Uses of private members that the user's room does not define, one line each."""
    modules = []
    for path in sorted(package.root.rglob("*.py")):
        room = package.room_of(path.relative_to(package.root).with_suffix("").parts)
        modules.append((path, room, members_of(path.read_text(encoding="utf-8"))))
    defined: dict[str, set[str]] = defaultdict(set)
    for _, room, members in modules:
        defined[room] |= members.defined
    known = set().union(*defined.values()) if defined else set()
    found = []
    for path, room, members in modules:
        for line, of, name in members.used:
            if name == "_core" or name in defined[room]:
                continue
            if name not in known and of.split(".")[0] in members.foreign:
                continue  # another package's, such as os._exit
            found.append(f"{path.relative_to(top)}:{line}: {of}.{name}")
    return found
