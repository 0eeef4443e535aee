#!/usr/bin/env python3
"""Fails where the tree is no house: rooms too full, files too long, no README, things named in two places.

tools/house.toml has the numbers, what may be named where, and the exceptions, each with its reason.

    check_house.py [TOP]             the checks of `make lint`
    check_house.py [TOP] --list      each use of a private member of another room
    check_house.py [TOP] --headers   whether each public header compiles alone (seconds; a test does it)
"""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import rooms
from check_layers import Package, includes
from reach_ins import reach_ins
from rooms import Rooms, tomllib

HOUSE = "tools/house.toml"
CODE = {".hpp", ".cpp", ".py", ".pyi"}


def files_of(top: Path, roots: list[str], suffixes: set[str]) -> Iterator[Path]:
    for root in roots:
        for path in sorted((top / root).rglob("*")):
            if path.suffix in suffixes and path.is_file() and "__pycache__" not in path.parts:
                yield path


@cache
def text_of(path: Path, changed: int, size: int) -> str:
    return path.read_text(encoding="utf-8")


def read(path: Path) -> str:
    """The text of a file; read once where several checks ask, or several tests."""
    status = path.stat()
    return text_of(path, status.st_mtime_ns, status.st_size)


# --- code without comments --------------------------------------------------------------------------------


def blank(match: re.Match[str]) -> str:
    """As many lines, and strings as they are."""
    return match[0] if match[0][0] in "\"'" else "\n" * match[0].count("\n")


@cache
def cpp_code(text: str) -> str:
    """C++ without comments."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL)


@cache
def python_code(text: str) -> str:
    """Python without comments and docstrings."""
    lines = text.splitlines(keepends=True)
    fresh = True  # at the beginning of a statement: a string there is prose
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and fresh):
            (first, start), (last, end) = token.start, token.end
            for number in range(first, last + 1):
                line = lines[number - 1]
                head = line[:start] if number == first else ""
                lines[number - 1] = head + (line[end:] if number == last else "\n")
        fresh = token.type in {
            tokenize.NEWLINE,
            tokenize.NL,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENCODING,
        }
        fresh = fresh or token.type == tokenize.COMMENT
    return "".join(lines)


# --- rules 1 and 2: how full a room is, how long a file, what it says of itself -----------------------------


def module_of(path: Path) -> str:
    """x.hpp, x.cpp and x_test.cpp are one."""
    return path.stem.removesuffix("_test") if path.suffix == ".cpp" else path.stem


def module_errors(top: Path, house: dict) -> Iterator[str]:
    table = house["modules"]
    folders: dict[Path, set[str]] = defaultdict(set)
    for path in files_of(top, table["roots"], {*CODE, ".md"}):
        if path.stem not in {"__init__", "README", "index"}:
            folders[path.parent].add(module_of(path))
    for folder, names in sorted(folders.items()):
        said = folder.relative_to(top).as_posix()
        most = table["most_faces"] if said == table["faces"] else table["most"]
        if len(names) > most:
            yield f"{said}: holds {len(names)} modules, a folder at most {most}; make a room of some"


def is_test(top: Path, path: Path) -> bool:
    said = path.relative_to(top).as_posix()
    return said.startswith("tests/") or said.endswith("_test.cpp") or "/testing/" in said


def length_errors(top: Path, house: dict) -> Iterator[str]:
    table = house["lines"]
    for path in files_of(top, table["roots"], CODE):
        said = path.relative_to(top).as_posix()
        most = table["tests"] if is_test(top, path) else table["product"]
        lines = read(path).count("\n")
        if lines > most and said not in table.get("except", {}):
            yield f"{said}: has {lines} lines, a file at most {most}"


def name_errors(top: Path, house: dict) -> Iterator[str]:
    """No room or module is an attic."""
    refused = set(house["names"]["refused"])
    seen = set()
    for path in files_of(top, house["modules"]["roots"], CODE):
        parts = path.relative_to(top).parts
        for end, part in enumerate(parts, start=1):
            word = module_of(Path(part)) if end == len(parts) else part
            said = "/".join(parts[:end])
            if word.strip("_") in refused and said not in seen:
                seen.add(said)
                yield f"{said}: a room or module called {word.strip('_')} is an attic; say what is in it"


def readme_errors(top: Path, house: dict, library: Rooms, package: Package) -> Iterator[str]:
    """Every room says what its job is, in a title and a page."""
    table = house["readmes"]
    named = [(library.root / room, room) for room in (*library.rows, *library.leaves)]
    named += [(package.root / room, room) for room in package.floor if (package.root / room).is_dir()]
    named += [(top / folder, folder) for folder in table.get("also", [])]
    for folder, room in named:
        if not folder.is_dir():
            continue  # check_layers.py names it
        said = (folder / "README.md").relative_to(top)
        if not (folder / "README.md").exists():
            yield f"{said}: is not there; a room says what it is for"
            continue
        lines = read(folder / "README.md").splitlines()
        names = {room, room.rpartition("/")[2]}
        title = re.match(r"# `?([^:`]+)`?: \S", lines[0] if lines else "")
        if not title or title[1] not in names:
            yield f"{said}: its title is no '# {room}: its job'"
        if len(lines) > table["lines"]:
            yield f"{said}: has {len(lines)} lines, a page at most {table['lines']}"


# --- rule 1: a class stands in two sources at most ----------------------------------------------------------

DEFINED = re.compile(
    r"^(?![\s#}])([^;=()\n]*?)\b((?:[A-Z]\w*::)+)(?:~?\w+|operator[^(\n]*)\s*\(", re.MULTILINE
)


@cache
def classes_of(text: str) -> frozenset[str]:
    """The classes whose member functions a source defines, and which it does not declare itself."""
    code = cpp_code(text)
    found = {match[2].removesuffix("::") for match in DEFINED.finditer(code)}
    return frozenset(
        name
        for name in found
        if not re.search(rf"\b(?:class|struct)\s+{name.split('::')[0]}\b[^;{{}}()]*\{{", code)
    )


def class_errors(top: Path, house: dict, library: Rooms) -> Iterator[str]:
    table = house["classes"]
    where: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(library.root.rglob("*.cpp")):
        if not is_test(top, path):
            for name in classes_of(read(path)):
                where[name].append(path)
    for name, paths in sorted(where.items()):
        if len(paths) > table["most"] and name not in table.get("except", {}):
            said = ", ".join(path.relative_to(top).as_posix() for path in paths)
            yield f"{said}: class {name} has {len(paths)} sources, at most {table['most']}; take it apart"
    for name in table.get("except", {}):
        if len(where[name]) <= table["most"]:
            yield f"{HOUSE}: class {name} is excepted and has {len(where[name])} sources; take it out"


# --- rule 6: faces and public headers -----------------------------------------------------------------------


def face_errors(top: Path, house: dict, package: Package) -> Iterator[str]:
    """A file beside __init__.py is a docstring, imports and __all__; a folder there is a room."""
    for path in sorted(package.root.iterdir()):
        said = path.relative_to(top).as_posix()
        if path.is_dir():
            if any(path.rglob("*.py")) and not path.name.startswith("_"):
                yield f"{said}: a folder beside __init__.py is a room; its name begins with an underscore"
            continue
        if path.suffix != ".py" or path.stem in {"__init__", "__main__"} or said in house["faces"]["except"]:
            continue
        tree = ast.parse(read(path))
        if ast.get_docstring(tree) is None:
            yield f"{said}: a face has a docstring"
        if not any("__all__" in ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)):
            yield f"{said}: a face lists its names in __all__"
        for node in tree.body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            listing = isinstance(node, (ast.Assign, ast.AugAssign)) and "__all__" in ast.unparse(node)
            if not (docstring or listing or isinstance(node, (ast.Import, ast.ImportFrom))):
                yield f"{said}:{node.lineno}: a face holds a docstring, imports and __all__, nothing else"
                break


def header_errors(top: Path, library: Rooms) -> Iterator[str]:
    """Public headers include public ones; flagstone.hpp includes all of them; examples nothing else."""
    public = {
        f"{room}/{name}": room for room, names in rooms.public_headers(library).items() for name in names
    }
    if not public:
        yield f"{library.root.relative_to(top)}: no room declares a public header"
    for header, room in sorted(public.items()):
        path = library.root / header
        if not path.exists():
            yield f"{(library.root / room / 'CMakeLists.txt').relative_to(top)}: PUBLIC {header} is not there"
            continue
        for line, _, target in includes(read(path)):
            inner = target.removeprefix(library.prefix)
            if inner != target and inner not in public:
                yield f"{path.relative_to(top)}:{line}: is public and includes {target}, which is not"
    for root in library.roots:
        path = library.root / root
        listed = {target.removeprefix(library.prefix) for _, _, target in includes(read(path))}
        for header in sorted(public.keys() - listed):
            yield f"{path.relative_to(top)}: does not include {library.prefix}{header}, which is public"
        for header in sorted(listed - public.keys()):
            yield f"{path.relative_to(top)}: includes {library.prefix}{header}, which no room declares public"
    for path in files_of(top, ["examples"], {".cpp", ".hpp"}):
        for line, _, target in includes(read(path)):
            inner = target.removeprefix(library.prefix)
            if inner != target and inner not in {*public, *library.roots}:
                yield f"{path.relative_to(top)}:{line}: includes {target}, which is not public"


def begins_a_source(path: Path, library: Rooms) -> bool:
    """Whether the source beside a header includes it before all else: then every build compiles it alone."""
    source = path.with_suffix(".cpp")
    found = includes(read(source)) if source.exists() else ()
    return bool(found) and found[0][2] == library.prefix + path.relative_to(library.root).as_posix()


def alone_errors(top: Path, library: Rooms, names: list[str] | None = None) -> Iterator[str]:
    """Compiles by itself each public header (or of `names`) that begins no source, two at a time."""
    if names is None:
        names = [
            f"{room}/{name}" for room, listed in rooms.public_headers(library).items() for name in listed
        ]
    names = [name for name in names if not begins_a_source(library.root / name, library)]

    def compiled(name: str) -> str:
        command = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++20", "-fsyntax-only", "-x", "c++"]
        command += ["-I", str(library.root.parent), "-"]
        text = f'#include "{library.prefix}{name}"\n'
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        wrong = [line for line in done.stderr.splitlines() if ": error:" in line] or done.stderr.splitlines()
        return wrong[0] if done.returncode else ""

    with ThreadPoolExecutor(2) as pool:
        for name, wrong in zip(names, pool.map(compiled, names), strict=True):
            if wrong:
                yield f"{(library.root / name).relative_to(top)}: does not compile alone: {wrong}"


# --- rule 7: what is named in one place ---------------------------------------------------------------------


def lies_in(said: str, places: list[str]) -> bool:
    return any(said == place or said.startswith(place + "/") for place in places)


@cache
def first_named(pattern: str, suffix: str, text: str) -> tuple[str, int]:
    """What a pattern finds first outside comments, and in which line."""
    if re.search(pattern, text):
        code = cpp_code(text) if suffix in {".hpp", ".cpp"} else python_code(text)
        if match := re.search(pattern, code):
            return match[0], code.count("\n", 0, match.start()) + 1
    return "", 0


def only_errors(top: Path, house: dict) -> Iterator[str]:
    files = [path for path in files_of(top, house["only_roots"], CODE) if not is_test(top, path)]
    texts = [(path.relative_to(top).as_posix(), path.suffix, read(path)) for path in files]
    for rule in house["only"]:
        excepted = rule.get("except", {})
        used = set()
        for said, suffix, text in texts:
            name, line = first_named(rule["pattern"], suffix, text)
            if not name or lies_in(said, rule["in"]):
                continue
            if said in excepted:
                used.add(said)
            else:
                where = ", ".join(rule["in"])
                yield f"{said}:{line}: names {name}, but {rule['what']} is the job of {where}"
        for said in sorted(excepted.keys() - used):
            yield f"{HOUSE}: {said} is excepted from '{rule['what']}' and need not be; take it out"


# --- private members of other rooms ------------------------------------------------------------------------


def reach_errors(top: Path, house: dict, package: Package) -> Iterator[str]:
    found = reach_ins(top, package)
    most = house["private"]["most"]
    if len(found) > most:
        yield from (f"{use}, a private member of another room" for use in found)
        yield f"{package.root.relative_to(top)}: {len(found)} such uses, at most {most} ({HOUSE})"


# --- all --------------------------------------------------------------------------------------------------


def parts_of(top: Path) -> tuple[dict, Rooms, Package]:
    table = rooms.table(top)
    library, _, _ = rooms.cpp_rooms(top, table)
    python = table["python"]
    house = tomllib.loads((top / HOUSE).read_text(encoding="utf-8"))
    return house, library, Package(top / python["root"], python["floors"])


def check(top: Path) -> list[str]:
    """What is wrong in the tree at `top`, one sentence each."""
    house, library, package = parts_of(top)
    return [
        *module_errors(top, house),
        *length_errors(top, house),
        *name_errors(top, house),
        *readme_errors(top, house, library, package),
        *class_errors(top, house, library),
        *face_errors(top, house, package),
        *header_errors(top, library),
        *only_errors(top, house),
        *reach_errors(top, house, package),
    ]


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    top = Path(words[0]).resolve() if words else Path(__file__).resolve().parent.parent
    _, library, package = parts_of(top)
    if "--list" in sys.argv:
        found = reach_ins(top, package)
        print("\n".join([*found, f"{len(found)} uses of another room's private members"]))
        return 0
    errors = list(alone_errors(top, library)) if "--headers" in sys.argv else check(top)
    print("\n".join(errors) if errors else "house: in order")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
