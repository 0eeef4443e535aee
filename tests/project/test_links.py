"""The link checker finds symbols of rooms that must not be seen, and functions in the wrong room."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import check_links
import pytest

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("g++", "ar", "nm", "c++filt"))), reason="needs g++ and binutils"
)

TABLE = """
[cpp]
root = "src/flagstone"
rooms = {"low" = [], "high/one" = ["low"], "high/two" = ["low"]}
"""

CLEAN = {
    "low/low.hpp": """
        namespace flagstone {
        void low();
        struct Lowest { void run(); };
        inline int both() { return 1; }
        }""",
    "low/low.cpp": """
        #include "flagstone/low/low.hpp"
        namespace flagstone { void low() { both(); } void Lowest::run() {} }""",
    "high/one/one.hpp": """
        namespace flagstone {
        void one();
        struct One { void run(); int value; };
        template <class T> T copy(T x) { return x; }
        }""",
    "high/one/one.cpp": """
        #include "flagstone/high/one/one.hpp"
        #include "flagstone/low/low.hpp"
        namespace flagstone {
        void one() { low(); Lowest().run(); copy(both()); }
        void One::run() { one(); }
        }""",
    "high/two/two.hpp": "namespace flagstone { void two(); }",
    "high/two/two.cpp": """
        #include "flagstone/low/low.hpp"
        namespace flagstone {
        namespace { void run() {} struct Impl { void one(); }; void Impl::one() { run(); } }
        void two() { low(); both(); Impl().one(); }
        }""",
}


def built(top: Path, files: dict[str, str]) -> list[str]:
    """What is said of these rooms, compiled without optimization."""
    (top / "tools").mkdir()
    (top / "tools" / "layers.toml").write_text(TABLE)
    for name, text in files.items():
        path = top / "src" / "flagstone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    build = top / "build"
    for room in ("low", "high/one", "high/two"):
        where = build / "src" / "flagstone" / room
        where.mkdir(parents=True)
        objects = []
        for source in sorted((top / "src" / "flagstone" / room).glob("*.cpp")):
            objects.append(str(where / f"{source.name}.o"))
            command = ["g++", "-std=c++20", "-I", str(top / "src"), "-c", str(source), "-o", objects[-1]]
            subprocess.run(command, check=True)
        archive = where / f"libflagstone_{room.replace('/', '_')}.a"
        subprocess.run(["ar", "rc", str(archive), *objects], check=True)
    return check_links.check(build, top)


def test_clean_rooms(tmp_path):
    assert built(tmp_path, CLEAN) == []
    command = [sys.executable, check_links.__file__, str(tmp_path / "build"), str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_neighbour_is_used_behind_a_declaration(tmp_path):
    two = "namespace flagstone { void one(); void two() { one(); } }"
    (error,) = built(tmp_path, {**CLEAN, "high/two/two.cpp": two})
    assert "high/two/two.cpp: uses flagstone::one of high/one/one.cpp" in error
    command = [sys.executable, check_links.__file__, str(tmp_path / "build"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert error in done.stdout


def test_a_lower_room_uses_a_higher_one(tmp_path):
    low = (
        CLEAN["low/low.cpp"]
        + "namespace flagstone { struct One { void run(); }; void up() { One().run(); } }"
    )
    errors = built(tmp_path, {**CLEAN, "low/low.cpp": low})
    assert any("low/low.cpp: uses flagstone::One::run of high/one/one.cpp" in error for error in errors)


@pytest.mark.parametrize("name", ["low", "Lowest::run"])
def test_a_function_is_defined_in_another_room(tmp_path, name):
    """As read_box was, which the header of arrays declared and the source of boxes held."""
    low = CLEAN["low/low.cpp"].replace(f"void {name}()", "inline void elsewhere()")
    one = CLEAN["high/one/one.cpp"] + f"namespace flagstone {{ void {name}() {{}} }}"
    errors = built(tmp_path, {**CLEAN, "low/low.cpp": low, "high/one/one.cpp": one})
    said = f"high/one/one.cpp: defines {name}, which low/low.hpp declares"
    assert any(said in error for error in errors)


def test_a_function_is_defined_twice(tmp_path):
    two = CLEAN["high/two/two.cpp"] + "namespace flagstone { void one() {} }"
    errors = built(tmp_path, {**CLEAN, "high/two/two.cpp": two})
    assert any("high/one and high/two: both define flagstone::one" in error for error in errors)


def test_a_room_that_was_not_built(tmp_path):
    built(tmp_path, CLEAN)
    shutil.rmtree(tmp_path / "build" / "src" / "flagstone" / "low")
    assert any("not there" in error for error in check_links.check(tmp_path / "build", tmp_path))
