"""What tools/layers.toml and the CMakeLists.txt of rooms say; read by the checks beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

TABLE = "tools/layers.toml"


@dataclass(frozen=True)
class Rooms:
    """The C++ rooms of one root: `sees` has what a room may see, by way of others too, itself included."""

    root: Path
    rows: dict[str, list[str]]
    sees: dict[str, set[str]]
    roots: list[str] = field(default_factory=list)  # files above all rooms
    leaves: list[str] = field(default_factory=list)  # see every room; only unit tests and leaves see them
    loaded: list[str] = field(default_factory=list)  # opened at run time, and not built everywhere

    @property
    def prefix(self) -> str:
        """How includes of this root begin, and what its rooms are called in rows of other roots."""
        return self.root.name + "/"


@dataclass(frozen=True)
class Declared:
    """One call of flagstone_room() in a CMakeLists.txt."""

    name: str
    uses: tuple[str, ...]
    public: tuple[str, ...]


def table(top: Path) -> dict:
    return tomllib.loads((top / TABLE).read_text(encoding="utf-8"))


def target_of(room: str) -> str:
    """The name that flagstone_room() gives a folder: storage/zarr/shard is storage_zarr_shard."""
    return room.replace("/", "_")


def closure(rows: dict[str, list[str]]) -> tuple[dict[str, set[str]], list[str]]:
    """What each room may see, by way of others too, and the circles of the rows."""
    sees: dict[str, set[str]] = {}
    circles: list[str] = []

    def visit(room: str, way: tuple[str, ...]) -> set[str]:
        if room in way:
            circles.append(" -> ".join((*way[way.index(room) :], room)))
            return set()
        if room not in sees:
            found = {room}
            for lower in rows.get(room, []):
                found |= visit(lower, (*way, room))
            sees[room] = found
        return sees[room]

    for room in rows:
        visit(room, ())
    return sees, circles


def cpp_rooms(top: Path, table: dict) -> tuple[Rooms, Rooms, list[str]]:
    """The rooms of the library, those of the bindings (who name the former as flagstone/...), errors."""
    cpp, bindings = table["cpp"], table.get("bindings", {"root": "python/bindings", "rooms": {}})
    errors = []
    sees, circles = closure(cpp["rooms"])
    library = Rooms(
        root=top / cpp["root"],
        rows=cpp["rooms"],
        sees=sees,
        roots=cpp.get("roots", []),
        leaves=cpp.get("leaves", ["testing"]),
        loaded=cpp.get("loaded", []),
    )
    names = {
        library.prefix + room: [library.prefix + low for low in row] for room, row in cpp["rooms"].items()
    }
    inside = Path(bindings["root"]).name + "/"
    own = {
        inside + room: [low if low.startswith(library.prefix) else inside + low for low in row]
        for room, row in bindings["rooms"].items()
    }
    above, more = closure({**names, **own})
    for room, row in {**names, **own}.items():
        known = names if room in names else {**names, **own}
        errors += [f"{TABLE}: {room} sees {low}, which is no room" for low in row if low not in known]
    errors += [f"{TABLE}: a circle: {circle}" for circle in dict.fromkeys([*circles, *more])]
    for room, reached in sees.items():
        parents = {parent.as_posix() for parent in Path(room).parents} & reached
        errors += [f"{TABLE}: {room} sees {parent}, the face above it" for parent in sorted(parents)]
    seen = {room: above[inside + room] for room in bindings["rooms"]}
    return library, Rooms(top / bindings["root"], bindings["rooms"], seen), errors


@cache
def declared(text: str) -> tuple[Declared, ...]:
    """The calls of flagstone_room() in the text of a CMakeLists.txt."""
    text = re.sub(r"#[^\n]*", "", text)
    calls = []
    for words in re.findall(r"\bflagstone_room\s*\(([^)]*)\)", text):
        name, *rest = words.split()
        parts: dict[str, list[str]] = {"": []}
        where = ""
        for word in rest:
            if word.isupper() and word.isalpha():
                where = word
                parts[where] = []
            else:
                parts[where].append(word)
        calls.append(Declared(name, tuple(parts.get("USES", ())), tuple(parts.get("PUBLIC", ()))))
    return tuple(calls)


def public_headers(library: Rooms) -> dict[str, list[str]]:
    """The headers that each room declares public."""
    found = {}
    for room in library.rows:
        listing = library.root / room / "CMakeLists.txt"
        if listing.exists():
            found[room] = [name for call in declared(listing.read_text()) for name in call.public]
    return found
