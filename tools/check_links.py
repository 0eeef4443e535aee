#!/usr/bin/env python3
"""Fails when a room links to what tools/layers.toml does not let it see, or defines what another declares.

Reads the archives of a build with `nm`. Undefined symbols of a room must be defined in rooms that it may see,
and a function stands in the room whose header declares it. Templates and inline functions, of which every
room has its own copy, belong to nobody.

    check_links.py BUILD [TOP]
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import rooms
from rooms import TABLE, Rooms

STRONG = set("TDBRGSC")
VAGUE = set("WVui")
#: archive.a[member.o]: name type [value size]; newer binutils and older ones agree on this form.
LINE = re.compile(r"^(?P<archive>[^\[]+)\[(?P<member>[^\]]+)\]: (?P<name>\S+) (?P<type>\S)")


@dataclass
class Symbols:
    """What the archive of one room defines and lacks: names, each with the files that do."""

    strong: dict[str, str] = field(default_factory=dict)
    vague: set[str] = field(default_factory=set)
    undefined: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def archive_of(build: Path, library: Rooms, room: str) -> Path:
    return build / "src" / library.root.name / room / f"libflagstone_{rooms.target_of(room)}.a"


def read(archives: dict[str, Path]) -> dict[str, Symbols]:
    """The symbols of each room."""
    found = {room: Symbols() for room in archives}
    room_of = {str(path): room for room, path in archives.items()}
    command = ["nm", "-A", "-P", *map(str, archives.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"check_links: nm failed: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        here = found[room_of[match["archive"]]]
        name, kind = match["name"], match["type"]
        if kind == "U":
            here.undefined[name].add(match["member"].removesuffix(".o"))
        elif kind in STRONG:
            here.strong[name] = match["member"].removesuffix(".o")
        elif kind in VAGUE:
            here.vague.add(name)
    return found


def owners(found: dict[str, Symbols]) -> dict[str, set[str]]:
    """The rooms that define each symbol; what several define vaguely has no owner."""
    strong: dict[str, set[str]] = defaultdict(set)
    vague: dict[str, set[str]] = defaultdict(set)
    for room, symbols in found.items():
        for name in symbols.strong:
            strong[name].add(room)
        for name in symbols.vague:
            vague[name].add(room)
    for name, where in vague.items():
        if len(where) == 1 and name not in strong:
            strong[name] = where
    return strong


def plain(names: list[str]) -> dict[str, str]:
    """The names as C++ writes them, without parameters."""
    if not names:
        return {}
    done = subprocess.run(
        ["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return dict(zip(names, done.stdout.splitlines(), strict=True))


# --- who uses what ----------------------------------------------------------------------------------------


def use_errors(found: dict[str, Symbols], library: Rooms) -> Iterator[str]:
    owner = owners(found)
    wrong = []
    twice = {n: where for n, where in owner.items() if len(where) > 1}
    for name, where in sorted(twice.items()):
        yield f"{' and '.join(sorted(where))}: both define {plain([name])[name]}"
    for room, symbols in found.items():
        own = symbols.strong.keys() | symbols.vague
        for name, members in symbols.undefined.items():
            where = owner.get(name, set())
            if where and name not in own and not where & library.sees[room]:
                wrong += [(room, member, name, min(where)) for member in sorted(members)]
    shown = plain(sorted({name for _, _, name, _ in wrong}))
    for room, member, name, where in sorted(wrong):
        said = f"{where}/{found[where].strong.get(name, 'its archive')}"
        yield f"{room}/{member}: uses {shown[name]} of {said}; {room} may not see {where} ({TABLE})"


# --- who defines what another declares ---------------------------------------------------------------------


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def qualified(name: str) -> list[str]:
    """The parts of a function's name: flagstone::Array::read is flagstone, Array, read."""
    name = name.split(" [clone ")[0].replace("(anonymous namespace)::", "")
    name = re.sub(r"\[abi:\w+\]", "", name)
    if "<" in name or "operator" in name or " for " in name:
        return []  # templates, operators, tables of classes
    return name.split("::")


def place_errors(found: dict[str, Symbols], library: Rooms) -> Iterator[str]:
    """A function is defined in the room that declares it, a member function in the room of its class."""
    headers: dict[str, dict[Path, str]] = defaultdict(dict)
    texts: dict[str, str] = {}
    for room in library.rows:
        folder = library.root / room
        for path in sorted(folder.glob("*.hpp")):
            headers[room][path] = without_comments(path.read_text(encoding="utf-8"))
        texts[room] = "\n".join(headers[room].values())
    called = {room: set(re.findall(r"\b(\w+)\s*\(", text)) for room, text in texts.items()}
    define = re.compile(r"\b(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*)?([\w:]+)[^;{}()]*\{")
    classes = {room: {c.split("::")[-1] for c in define.findall(text)} for room, text in texts.items()}
    names = sorted({name for symbols in found.values() for name in symbols.strong if name.startswith("_Z")})
    shown = plain(names)
    for room, symbols in sorted(found.items()):
        for name, member in sorted(symbols.strong.items()):
            parts = qualified(shown.get(name, ""))
            if len(parts) < 2 or parts[0] != library.root.name:
                continue
            # flagstone::Class::f and flagstone::f; classes are written in capitals, namespaces are not.
            word = parts[-2] if parts[-2][0].isupper() else parts[-1]
            known = classes if parts[-2][0].isupper() else called
            where = [other for other in known if word in known[other]]
            if where and room not in where and not _declared_inside(library, room, word):
                header = next(p for p, text in headers[where[0]].items() if re.search(rf"\b{word}\b", text))
                said = header.relative_to(library.root)
                yield (
                    f"{room}/{member}: defines {'::'.join(parts[1:])}, which {said} declares; "
                    f"define it in {where[0]} or declare it in {room}"
                )


def _declared_inside(library: Rooms, room: str, word: str) -> bool:
    """Whether a source of the room holds a class of this name: then it is the room's own."""
    define = re.compile(rf"\b(?:class|struct)\s+(?:\w+::)*{word}\b[^;{{}}()]*\{{")
    return any(
        define.search(path.read_text(encoding="utf-8")) for path in (library.root / room).glob("*.cpp")
    )


# --- all --------------------------------------------------------------------------------------------------


def check(build: Path, top: Path) -> list[str]:
    """What is wrong in the archives of `build`, one sentence each."""
    library, _, errors = rooms.cpp_rooms(top, rooms.table(top))
    archives = {}
    for room in library.rows:
        if room in library.leaves or room in library.loaded:
            continue
        archive = archive_of(build, library, room)
        written = [p for p in (library.root / room).glob("*.cpp") if not p.name.endswith("_test.cpp")]
        if archive.exists():
            archives[room] = archive
        elif written:
            errors.append(f"{archive}: is not there; build first")
    if not archives:
        return errors
    found = read(archives)
    return [*errors, *use_errors(found, library), *place_errors(found, library)]


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit("check_links: needs the folder of a build, such as build/python")
    top = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else Path(__file__).resolve().parent.parent
    errors = check(Path(sys.argv[1]).resolve(), top)
    print("\n".join(errors) if errors else "links: every symbol comes from a room below")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
