#!/usr/bin/env python3
"""Fails when a file includes or imports from a layer that tools/layers.toml does not let it see."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(path: str, layers: dict[str, list[str]]) -> str | None:
    """The deepest layer whose folder holds `path`."""
    inside = [layer for layer in layers if path.startswith(layer + "/")]
    return max(inside, key=len, default=None)


def cpp_errors(top: Path, table: dict, known: dict[str, list[str]]) -> list[str]:
    errors = []
    root = top / table["root"]
    for file in sorted([*root.rglob("*.hpp"), *root.rglob("*.cpp")]):
        name = file.relative_to(root).as_posix()
        layer = layer_of(name, table["layers"])
        if layer is None:
            if name not in table.get("roots", []):
                errors.append(f"{file.relative_to(top)}: stands in no layer of tools/layers.toml")
            continue
        for quote, target in INCLUDE.findall(file.read_text()):
            if target.startswith("flagstone/"):
                seen = layer_of(target, known)
                if seen != layer and seen not in table["layers"][layer]:
                    errors.append(f"{file.relative_to(top)}: {layer} must not include {target}")
            elif quote == '"' and not (file.parent / target).resolve().is_relative_to(file.parent):
                errors.append(f"{file.relative_to(top)}: include {target} by its full name")
    return errors


def imported_modules(tree: ast.AST, depth: int) -> set[str]:
    """Names of the package's modules that a module imports, anywhere in it, `depth` folders below it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == depth + 1 or (node.level == 0 and module.split(".")[0] == "flagstone"):
                inner = module.removeprefix("flagstone").lstrip(".")
                found |= {inner.split(".")[0]} if inner else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "flagstone":
                    found.add(alias.name.split(".")[1] if "." in alias.name else "__init__")
    return found


def python_errors(top: Path, table: dict) -> list[str]:
    """A folder inside the package is one module: its files see each other, and what the folder may see."""
    rank = {module: level for level, modules in enumerate(table["order"]) for module in modules}
    errors = []
    root = top / table["root"]
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root)
        module = inside.parts[0].removesuffix(".py")
        if module not in rank:
            errors.append(f"{file.relative_to(top)}: stands in no row of [python] order in tools/layers.toml")
            continue
        found = imported_modules(ast.parse(file.read_text()), len(inside.parts) - 1)
        for target in sorted(found - {module}):
            # A name that is no module (from . import matmul) is taken from __init__.
            level = rank.get(target, rank["__init__"])
            if level > rank[module] or (level == rank[module] and target in rank):
                errors.append(f"{file.relative_to(top)}: {module} must not import {target}")
    return errors


def main() -> int:
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    table = tomllib.loads((top / "tools" / "layers.toml").read_text())
    known = {**table["cpp"]["layers"], **table["bindings"]["layers"]}
    errors = cpp_errors(top, table["cpp"], known)
    errors += cpp_errors(top, table["bindings"], known)
    errors += python_errors(top, table["python"])
    print("\n".join(errors) if errors else "layers: every arrow points down")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
