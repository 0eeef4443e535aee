"""The checker of the house passes on the tree and names what is planted."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import check_house
import pytest
import rooms

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = "src/flagstone/"
PACKAGE = "python/flagstone/"


def found(tree, files: dict[str, str | None], file: str = "", append: bool = False) -> list[str]:
    """What is said of `file` (or the first of `files`) once these stand in the tree."""
    with tree.planted(files, append):
        return [error for error in check_house.check(tree.top) if (file or next(iter(files))) in error]


def test_the_tree_is_in_order():
    command = [sys.executable, str(ROOT / "tools" / "check_house.py"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_fault_is_an_exit_code(tree):
    file = LIBRARY + "base/README.md"
    with tree.planted({file: None}):
        command = [sys.executable, str(ROOT / "tools" / "check_house.py"), str(tree.top)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert file in done.stdout


@pytest.mark.parametrize(
    ("folder", "ending", "most"),
    [
        (LIBRARY + "base", ".hpp", 15),
        (LIBRARY + "base", "_test.cpp", 15),
        (PACKAGE + "_array", ".py", 15),
        (PACKAGE.rstrip("/"), ".py", 20),
        ("tests/linalg", ".py", 15),
        ("benchmarks/dense", ".py", 15),
        ("docs/decisions/project", ".md", 15),
    ],
)
def test_a_folder_that_is_too_full(tree, folder, ending, most):
    here = {
        check_house.module_of(p) for p in (tree.top / folder).iterdir() if p.suffix in {".hpp", ".cpp", ".py"}
    }
    here |= {path.stem for path in (tree.top / folder).glob("*.md")}
    here -= {"__init__", "README", "index"}
    here |= {"_core"} if most == 20 else set()
    files = {f"{folder}/planted_{i}{ending}": "" for i in range(most - len(here))}
    said = f"{folder}: holds {most + 1} modules"
    assert not [error for error in found(tree, files, folder) if "modules" in error]
    assert any(said in error for error in found(tree, {**files, f"{folder}/one_more{ending}": ""}, folder))


def test_header_source_and_test_are_one_module(tree):
    files = {f"{LIBRARY}base/planted{ending}": "" for ending in (".hpp", ".cpp", "_test.cpp")}
    assert {check_house.module_of(Path(file)) for file in files} == {"planted"}


@pytest.mark.parametrize(
    ("file", "most"),
    [
        (LIBRARY + "base/planted.cpp", 450),
        (PACKAGE + "_array/planted.py", 450),
        (LIBRARY + "base/planted_test.cpp", 600),
        ("tests/project/test_planted.py", 600),
    ],
)
def test_a_file_that_is_too_long(tree, file, most):
    assert not [error for error in found(tree, {file: "\n" * most}) if "lines" in error]
    assert any(f"has {most + 1} lines" in error for error in found(tree, {file: "\n" * (most + 1)}))


@pytest.mark.parametrize(
    "file",
    [LIBRARY + "base/utils.hpp", LIBRARY + "common/x.hpp", PACKAGE + "_internal/x.py", "tests/helpers.py"],
)
def test_attics(tree, file):
    assert any(
        "is an attic" in e for e in found(tree, {file: ""}, file.removesuffix("/x.hpp").removesuffix("/x.py"))
    )


@pytest.mark.parametrize(
    ("room", "name"), [(LIBRARY + "storage/zarr/shard", "shard"), (PACKAGE + "_array", "_array")]
)
def test_readmes(tree, room, name):
    file = f"{room}/README.md"
    assert any("is not there" in error for error in found(tree, {file: None}))
    assert any("title" in error for error in found(tree, {file: f"# {name}\n\nIts job.\n"}))
    assert any("title" in error for error in found(tree, {file: "# attic: what is left\n"}))
    assert any("81 lines" in error for error in found(tree, {file: f"# {name}: its job\n" + "\n" * 80}))
    assert not found(tree, {file: f"# {name}: its job\n"})


SOURCE = """
namespace flagstone {{
std::vector<Index> Planted::{0}(const Shape& shape) const {{
  return Other::named(shape);
}}
}}  // namespace flagstone
"""


def test_a_class_in_three_sources(tree):
    files = {f"{LIBRARY}base/planted_{name}.cpp": SOURCE.format(name) for name in "abc"}
    assert any("class Planted has 3 sources" in error for error in found(tree, files))
    del files[f"{LIBRARY}base/planted_a.cpp"]
    assert not [error for error in found(tree, files) if "class" in error]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Planted::Planted(int size) : size_(size) {}", "Planted"),
        ("Planted::~Planted() = default;", "Planted"),
        ("bool Planted::operator==(const Planted& other) const {", "Planted"),
        ("void Planted::Impl::run() {", "Planted::Impl"),
        ("Result<int>* Planted::run(", "Planted"),
        ("  Planted::run();", None),
        ("static const Array x = Array::made(1);", None),
        ("// Planted::run() is elsewhere", None),
        ("class Planted {\n};\nvoid Planted::run() {}", None),
    ],
)
def test_what_defines_a_member(line, name):
    assert check_house.classes_of(line + "\n") == ({name} if name else set())


# --- faces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '"""A face."""\n\n__all__ = []\n\n\ndef f():\n    return 1\n',
        '"""A face."""\n\n__all__ = []\nLIMIT = 3\n',
        '"""A face."""\n',
        "__all__ = []\n",
    ],
)
def test_a_face_lists_names(tree, text):
    assert found(tree, {PACKAGE + "planted.py": text})
    clean = '"""A face."""\n\nfrom ._array.array import Array\n\n__all__ = ["Array"]\n'
    assert not found(tree, {PACKAGE + "planted.py": clean})


def test_a_public_header_includes_public_ones(tree):
    library = check_house.parts_of(tree.top)[1]
    room, name = next((room, names[0]) for room, names in rooms.public_headers(library).items() if names)
    internal = '#include "flagstone/storage/zarr/metadata/json.hpp"\n'
    assert found(tree, {f"{LIBRARY}{room}/{name}": internal}, append=True)
    assert found(tree, {LIBRARY + "flagstone.hpp": internal}, append=True)
    assert found(tree, {LIBRARY + "flagstone.hpp": "#pragma once\n"})
    assert found(tree, {"examples/cpp/planted.cpp": internal})


compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@compiler
def test_public_headers_compile_alone():
    library = check_house.parts_of(ROOT)[1]
    assert list(check_house.alone_errors(ROOT, library)) == []


@compiler
def test_a_header_that_does_not_compile_alone(tree):
    file = "base/planted.hpp"
    text = "#pragma once\nnamespace flagstone { inline Index planted(std::string x); }\n"
    with tree.planted({LIBRARY + file: text}):
        library = check_house.parts_of(tree.top)[1]
        (error,) = check_house.alone_errors(tree.top, library, [file])
    assert LIBRARY + file in error


def test_the_build_compiles_what_begins_a_source(tree):
    header, source = LIBRARY + "base/planted.hpp", LIBRARY + "base/planted.cpp"
    own, other = '#include "flagstone/base/planted.hpp"\n', '#include "flagstone/base/shape.hpp"\n'
    for text, begins in ((own + other, True), (other + own, False), ("", False)):
        with tree.planted({header: "#pragma once\n", source: text}):
            library = check_house.parts_of(tree.top)[1]
            assert check_house.begins_a_source(tree.top / header, library) == begins


# --- what is named in one place ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (LIBRARY + "runtime/planted.cpp", "#include <nlohmann/json.hpp>"),
        (LIBRARY + "runtime/planted.cpp", "const bool taken = ::flock(file, LOCK_EX) == 0;"),
        (LIBRARY + "runtime/planted.cpp", "::fdatasync(file);"),
        (LIBRARY + "runtime/planted.cpp", "::statvfs(path, &space);"),
        (LIBRARY + "runtime/planted.cpp", 'const std::string mark = ".flagstone-tmp-";'),
        ("python/bindings/core/planted.cpp", "::fsync(file);"),
        (PACKAGE + "_array/planted.py", "fcntl.flock(file, how)"),
        (PACKAGE + "_array/planted.py", "fcntl.lockf(file, fcntl.LOCK_EX)"),
        (PACKAGE + "_array/planted.py", "os.fsync(file)"),
        (PACKAGE + "_array/planted.py", "shutil.disk_usage(folder)"),
        (PACKAGE + "_array/planted.py", 'name = f".{name}.flagstone-tmp-1"'),
    ],
)
def test_what_only_one_room_names(tree, file, line):
    assert found(tree, {file: line + "\n"})
    comment = "// " if file.endswith(".cpp") else "# "
    assert not found(tree, {file: comment + line + "\n"})


def test_an_exception_that_is_needed_no_more(tree):
    table = (tree.top / "tools/house.toml").read_text()
    table += '[[only]]\nwhat = "x"\npattern = "planted"\nin = []\nexcept = {"src/x.cpp" = "no reason"}\n'
    assert any("src/x.cpp is excepted" in error for error in found(tree, {"tools/house.toml": table}))


# --- private members --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("def f(x):\n    return x._segments_of_planted", 1),
        ('def f(x):\n    return getattr(x, "_planted", None)', 1),
        ("def f(x):\n    x._planted = 1", 1),
        ("class A:\n    def f(self):\n        return self._planted", 0),
        ("class A:\n    def __init__(self, other):\n        self._planted = other._planted", 0),
        ("def f(x):\n    return x._replace(y=1)", 0),
        ("import os\nos._exit(1)", 0),
        ("from .. import _core\n_core.thing()", 0),
    ],
)
def test_a_private_member_of_another_room(tree, line, counts):
    package = check_house.parts_of(tree.top)[2]
    before = len(check_house.reach_ins(tree.top, package))
    house = re.sub(r"(?<=\[private\]\nmost = )\d+", str(before), (tree.top / "tools/house.toml").read_text())
    files = {PACKAGE + "_array/planted.py": line + "\n", "tools/house.toml": house}
    assert len(found(tree, files)) == counts
