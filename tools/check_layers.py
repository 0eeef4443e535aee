#!/usr/bin/env python3
"""Fails when a file includes or imports what tools/layers.toml does not let its room see.

A room is a folder. C++: a room sees what its row names, and what those see; USES in its CMakeLists.txt says
the same. Python: a room sees itself and all lower floors. Unit tests and testing/ may see every C++ room.

    check_layers.py [TOP]           the checks
    check_layers.py [TOP] --edges   what each room includes and imports today, by itself
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rooms
from rooms import TABLE, Rooms

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w+))', re.MULTILINE)
LOADERS = {"import_module", "__import__", "run_module", "resolve_name"}


# --- C++ --------------------------------------------------------------------------------------------------


@cache
def includes(text: str) -> tuple[tuple[int, str, str], ...]:
    """Line, kind (quoted, angled or macro) and name of each include."""
    found = []
    for match in INCLUDE.finditer(text):
        kind = ("quoted", "angled", "macro")[match.lastindex - 1]
        found.append((text.count("\n", 0, match.start()) + 1, kind, match[match.lastindex]))
    return tuple(found)


def sources(root: Path) -> list[Path]:
    return sorted([*root.rglob("*.hpp"), *root.rglob("*.cpp")])


def folder_of(name: str) -> str:
    return Path(name).parent.as_posix()


def cpp_errors(top: Path, own: Rooms, library: Rooms) -> Iterator[str]:
    for file in sources(own.root):
        name = file.relative_to(own.root).as_posix()
        if name in own.roots:
            continue
        said = file.relative_to(top)
        room = folder_of(name)
        leaf = room in own.leaves or name.endswith("_test.cpp")
        if room not in own.rows and room not in own.leaves:
            yield f"{said}: stands in no room of {TABLE}"
            continue
        for line, kind, target in includes(file.read_text(encoding="utf-8")):
            at = f"{said}:{line}"
            other = next((r for r in (own, library) if target.startswith(r.prefix)), None)
            if kind == "macro":
                yield f"{at}: an include by a macro; name the header"
            elif other is None:
                if kind == "quoted":
                    yield f"{at}: include {target} by its full name"
            elif not leaf:
                inner = target.removeprefix(other.prefix)
                seen = folder_of(inner)
                shown = seen if own is library else other.prefix + seen
                if inner in other.roots:
                    yield f"{at}: no room includes {target}, which stands above all rooms"
                elif seen in other.leaves:
                    yield f"{at}: only unit tests include {target}"
                elif seen not in other.rows:
                    yield f"{at}: {target} stands in no room of {TABLE}"
                elif (seen != room or other is not own) and shown not in own.sees[room]:
                    yield f"{at}: {room} must not include {target}: its row does not let it see {seen}"


def cmake_errors(top: Path, library: Rooms) -> Iterator[str]:
    """USES of a room's CMakeLists.txt is its row."""
    known = {rooms.target_of(room): room for room in library.rows}
    for room, row in library.rows.items():
        listing = library.root / room / "CMakeLists.txt"
        said = listing.relative_to(top)
        if not listing.parent.is_dir():
            yield f"{TABLE}: there is no folder {listing.parent.relative_to(top)}"
            continue
        text = listing.read_text(encoding="utf-8") if listing.exists() else ""
        calls = rooms.declared(text)
        if len(calls) != 1:
            yield f"{said}: has {len(calls)} calls of flagstone_room(), a room has one"
            continue
        if calls[0].name != rooms.target_of(room):
            yield f"{said}: the room is called {rooms.target_of(room)}, not {calls[0].name}"
        if room in library.leaves:
            continue
        used = set()
        linked = re.findall(r"target_link_libraries\s*\(([^)]*)\)", text)
        for word in [*calls[0].uses, *(w for words in linked for w in words.split()[1:])]:
            plain = word.removeprefix("flagstone_")
            if plain in known:
                used.add(known[plain])
            elif word in calls[0].uses and re.fullmatch(r"\w+", word) and plain == word:
                yield f"{said}: USES {word}, which is no room of {TABLE}"
        for extra in sorted(used - {*row}):
            yield f"{said}: uses {extra}, which its row of {TABLE} does not name"
        for missing in sorted({*row} - used):
            yield f"{said}: does not use {missing}, which its row of {TABLE} names"


# --- Python -----------------------------------------------------------------------------------------------


class Package:
    """The Python package: which room a module stands in, and on which floor."""

    def __init__(self, root: Path, floors: list[list[str]]) -> None:
        self.root = root
        self.floor = {room: level for level, row in enumerate(floors) for room in row}

    def is_module(self, parts: tuple[str, ...]) -> bool:
        path = self.root.joinpath(*parts)
        return path.is_dir() or path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists()

    def room_of(self, parts: tuple[str, ...]) -> str:
        """The room of a module: its folder; beside __init__.py the module itself."""
        folder = 0
        while folder < len(parts) and self.root.joinpath(*parts[: folder + 1]).is_dir():
            folder += 1
        if folder:
            return "/".join(parts[:folder])
        return parts[0] if parts and self.is_module(parts[:1]) else "__init__"


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def imports(text: str, package: str, depth: int) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Line, folders up (-1: an absolute name) and dotted name of each import of `package`, anywhere.

    `from x import a` is x.a: whether that is a module or a name in one is for others to find out.
    """
    found = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.ImportFrom):
            inner = tuple((node.module or "").split(".")) if node.module else ()
            if node.level == 0 and (not inner or inner[0] != package):
                continue
            start = inner[1:] if node.level == 0 else inner
            up = node.level - 1 if node.level else -1
            found += [(node.lineno, up, (*start, alias.name)) for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first, *rest = alias.name.split(".")
                if first == package:
                    found.append((node.lineno, -1, (*rest, "")))
    return tuple(found)


def says_module(node: ast.Assign) -> bool:
    """Public classes say where users find them."""
    return any(ast.unparse(target).split(".")[-1] == "__module__" for target in node.targets)


@cache
def strings(text: str, package: str) -> tuple[tuple[int, str, str], ...]:
    """Line, kind (loaded, computed or named) and text of what may be an import by string."""
    tree = parsed(text)
    found = []
    loaders = set(LOADERS)
    prose = set()
    module = re.compile(rf"{package}(\.[A-Za-z_]\w*)+")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"importlib", "runpy", "pkgutil"}:
            loaders |= {alias.asname for alias in node.names if alias.name in LOADERS and alias.asname}
        if isinstance(node, ast.Expr) or (isinstance(node, ast.Assign) and says_module(node)):
            prose.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = [*node.args, *(word.value for word in node.keywords if word.arg == "name")][:1]
            if called in loaders and name:
                if not isinstance(name[0], ast.Constant):
                    found.append((node.lineno, "computed", ast.unparse(name[0])))
                elif str(name[0].value).split(".")[0] in {package, ""}:
                    found.append((node.lineno, "loaded", str(name[0].value)))
            elif called in {"exec", "eval"} and name and package in ast.unparse(name[0]):
                found.append((node.lineno, "loaded", ast.unparse(name[0])))
        elif isinstance(node, ast.Constant) and node not in prose and module.fullmatch(str(node.value)):
            found.append((node.lineno, "named", node.value))
    return tuple(found)


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def python_errors(top: Path, package: Package) -> Iterator[str]:
    for room in package.floor:
        if room not in {"_core", "__init__"} and not package.is_module(tuple(room.split("/"))):
            yield f"{TABLE}: [python] floors name {room}, which is not there"
    for file in sorted(package.root.rglob("*.py")):
        parts = file.relative_to(package.root).with_suffix("").parts
        said = file.relative_to(top)
        room = package.room_of(parts)
        if room not in package.floor:
            yield f"{said}: {room} stands on no floor of [python] in {TABLE}"
            continue
        yield from import_errors(said, file, parts, room, package)


def import_errors(
    said: Path, file: Path, parts: tuple[str, ...], room: str, package: Package
) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    name = package.root.name
    for line, up, inner in imports(text, name, len(parts) - 1):
        if up >= len(parts):
            continue  # above the package; Python refuses it
        target = inner if up < 0 else (*parts[: len(parts) - 1 - up], *inner)
        module = target if target[-1] and package.is_module(target) else target[:-1]
        for end in range(1, len(target) + 1):
            word = target[end - 1]
            if private(word) and word != "_core" and not package.root.joinpath(*target[:end]).is_dir():
                yield f"{said}:{line}: imports {word}, which is private to its module"
        seen = package.room_of(module)
        if seen == room:
            continue
        level = package.floor.get(seen)
        if level is None:
            yield f"{said}:{line}: imports {seen}, which stands on no floor of [python] in {TABLE}"
        elif level >= package.floor[room]:
            yield f"{said}:{line}: {room} must not import {seen}, which stands no lower"
    for line, kind, value in strings(text, name):
        if kind == "computed":
            yield f"{said}:{line}: imports by a computed name ({value}); write the import"
        elif kind == "loaded":
            yield f"{said}:{line}: imports {value} by a string; write the import"
        elif package.is_module(tuple(value.split(".")[1:2])):
            yield f"{said}:{line}: names the module {value} by a string; register what it holds beside it"


def example_errors(top: Path, package: Package) -> Iterator[str]:
    """Examples show what users may import: faces and their names."""
    for file in sorted((top / "examples").rglob("*.py")):
        for line, _, inner in imports(file.read_text(encoding="utf-8"), package.root.name, 0):
            if any(private(word) for word in inner):
                yield f"{file.relative_to(top)}:{line}: imports {'.'.join(inner)}, which is not public"


# --- all --------------------------------------------------------------------------------------------------


def check(top: Path) -> list[str]:
    """What is wrong in the tree at `top`, one sentence each."""
    table = rooms.table(top)
    library, bindings, errors = rooms.cpp_rooms(top, table)
    for room in bindings.rows:
        if not (bindings.root / room).is_dir():
            errors.append(f"{TABLE}: there is no folder {(bindings.root / room).relative_to(top)}")
    errors += cpp_errors(top, library, library)
    errors += cpp_errors(top, bindings, library)
    errors += cmake_errors(top, library)
    floors = table["python"]["floors"]
    names = [room for row in floors for room in row]
    errors += [f"{TABLE}: {room} stands on two floors" for room in {n for n in names if names.count(n) > 1}]
    package = Package(top / table["python"]["root"], floors)
    errors += python_errors(top, package)
    errors += example_errors(top, package)
    return errors


def edges(top: Path) -> dict[str, set[str]]:
    """What each room includes or imports, whether it may or not; unit tests left out."""
    table = rooms.table(top)
    found: dict[str, set[str]] = defaultdict(set)
    library, bindings, _ = rooms.cpp_rooms(top, table)
    for own in (library, bindings):
        for file in sources(own.root):
            if file.name.endswith("_test.cpp") or file.relative_to(own.root).as_posix() in own.roots:
                continue
            room = own.prefix + folder_of(file.relative_to(own.root).as_posix())
            for _, _, target in includes(file.read_text(encoding="utf-8")):
                if target.startswith((library.prefix, bindings.prefix)):
                    found[room].add(folder_of(target))
    package = Package(top / table["python"]["root"], table["python"]["floors"])
    for file in sorted(package.root.rglob("*.py")):
        parts = file.relative_to(package.root).with_suffix("").parts
        for _, up, inner in imports(file.read_text(encoding="utf-8"), package.root.name, len(parts) - 1):
            target = inner if up < 0 else (*parts[: len(parts) - 1 - up], *inner)
            module = target if target[-1] and package.is_module(target) else target[:-1]
            found[package.room_of(parts)].add(package.room_of(module))
    return {room: seen - {room} for room, seen in sorted(found.items())}


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--edges"]
    top = Path(words[0]).resolve() if words else Path(__file__).resolve().parent.parent
    if "--edges" in sys.argv:
        for room, seen in edges(top).items():
            print(f"{room}: {' '.join(sorted(seen))}")
        return 0
    errors = check(top)
    print("\n".join(errors) if errors else "layers: every arrow points down")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
