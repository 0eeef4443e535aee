"""The layer checker passes on the tree and fails on an arrow that points up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import check_layers
import pytest
import rooms

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = "src/flagstone/"
PACKAGE = "python/flagstone/"


def found(tree, file: str, line: str) -> list[str]:
    """What is said of `file` with `line` at its end."""
    with tree.planted({file: f"\n{line}\n"}, append=True):
        return [error for error in check_layers.check(tree.top) if file in error]


def test_the_tree_is_clean():
    command = [sys.executable, str(ROOT / "tools" / "check_layers.py"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_fault_is_an_exit_code(tree):
    file = LIBRARY + "base/shape.hpp"
    with tree.planted({file: '#include "flagstone/storage/array/array.hpp"\n'}, append=True):
        command = [sys.executable, str(ROOT / "tools" / "check_layers.py"), str(tree.top)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert file in done.stdout


@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("base/shape.hpp", "storage/array/array.hpp"),
        ("kernel/dense/blas3.hpp", "runtime/graph/graph.hpp"),
        ("storage/array/array.hpp", "kernel/dense/blas3.hpp"),
        ("storage/array/array.hpp", "storage/box/box_pieces.hpp"),
        ("storage/codec/encode.hpp", "storage/zarr/metadata/array_metadata.hpp"),
        ("runtime/graph/graph.hpp", "kernel/dense/blas3.hpp"),
        ("runtime/graph/graph.hpp", "runtime/scheduler/scheduler.hpp"),
        ("runtime/scheduler/scheduler.hpp", "runtime/runtime.hpp"),
        ("algorithms/linalg/matmul.hpp", "algorithms/sparse/csr_ops.hpp"),
        ("base/shape.hpp", "flagstone.hpp"),
        ("base/shape.hpp", "attic/shape.hpp"),
    ],
)
@pytest.mark.parametrize("form", ['#include "flagstone/{}"', "  #  include <flagstone/{}>"])
def test_an_upward_include(tree, file, target, form):
    assert found(tree, LIBRARY + file, form.format(target))


def test_a_unit_test_may_include_any_room(tree):
    line = '#include "flagstone/runtime/runtime.hpp"'
    with tree.planted({LIBRARY + "base/planted_test.cpp": line + "\n"}):
        assert not [error for error in check_layers.check(tree.top) if "planted" in error]


def test_the_helpers_of_unit_tests_are_theirs_alone(tree):
    line = '#include "flagstone/testing/temporary_directory.hpp"'
    assert found(tree, LIBRARY + "runtime/runtime.cpp", line)


@pytest.mark.parametrize("line", ['#include "shape.hpp"', '#include "../base/shape.hpp"', "#include WHERE"])
def test_a_short_include_name_is_refused(tree, line):
    assert found(tree, LIBRARY + "base/dtype.hpp", line)


def test_bindings_are_checked_too(tree):
    file = "python/bindings/core/base.cpp"
    assert found(tree, file, '#include "bindings/attic/x.hpp"')
    assert found(tree, file, '#include "base.hpp"')
    assert found(tree, file, '#include "bindings/algorithms/planted.hpp"')
    assert found(tree, file, '#include "flagstone/flagstone.hpp"')


@pytest.mark.parametrize("file", ["attic/x.cpp", "storage/x.hpp", "storage/file/attic/x.hpp"])
def test_a_file_in_no_room_is_refused(tree, file):
    with tree.planted({LIBRARY + file: "int x;\n"}):
        assert any(LIBRARY + file in error for error in check_layers.check(tree.top))


def test_uses_is_the_row(tree):
    listing = LIBRARY + "storage/array/CMakeLists.txt"
    text = (tree.top / listing).read_text()
    for wrong in (
        text.replace("USES ", "USES storage_box ", 1),
        text.replace("storage_ring", "", 1),
        text.replace("flagstone_room(storage_array", "flagstone_room(array"),
        text + "target_link_libraries(flagstone_storage_array PUBLIC flagstone_storage_box)\n",
        text.replace("USES ", "USES attic ", 1),
        "",
    ):
        assert wrong != text
        with tree.planted({listing: wrong}):
            assert any(listing in error for error in check_layers.check(tree.top))


TABLE = """
[cpp]
root = "src"
rooms = {rooms}
[python]
root = "python/package"
floors = {floors}
"""


def small(top: Path, rooms: str = "{}", floors: str = "[]", **files: str) -> list[str]:
    """What is said of a tree with this table."""
    texts = {"tools/layers.toml": TABLE.format(rooms=rooms, floors=floors), **files}
    for name, text in texts.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (top / "python" / "bindings").mkdir(parents=True, exist_ok=True)
    return check_layers.check(top)


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ('{a = ["b"], b = ["c"], c = ["a"]}', "circle: a -> b -> c -> a"),
        ('{a = ["gone"]}', "src/a sees src/gone, which is no room"),
        ('{a = [], "a/b" = ["a"]}', "a/b sees a, the face above it"),
        ("{a = []}", "there is no folder src/a"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, row, word):
    assert any(word in error for error in small(tmp_path, row))


def test_sees_by_way_of_others():
    sees, circles = rooms.closure({"a": ["b"], "b": ["c"], "c": [], "d": []})
    assert sees["a"] == {"a", "b", "c"}
    assert not circles


def test_uppercase_words_end_a_list():
    text = "# flagstone_room(x)\nflagstone_room(a_b USES c d  # why\n  PUBLIC e.hpp f.hpp)\n"
    assert rooms.declared(text) == (rooms.Declared("a_b", ("c", "d"), ("e.hpp", "f.hpp")),)


# --- Python -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("errors.py", "from flagstone import linalg"),
        ("errors.py", "from . import matmul"),
        ("errors.py", "from ._cli import main"),
        ("_errors/classes.py", "from .. import errors"),
        ("_errors/classes.py", "import flagstone._array.array as x"),
        ("_errors/classes.py", "def late():\n    import flagstone._decomposition.pca"),
        ("_array/array.py", "def late():\n    from .._linalg.matmul import matmul"),
        ("_array/array.py", "if TYPE_CHECKING:\n    from .._linalg.matmul import matmul"),
        ("_runtime/call.py", "from .._commands.options import Size"),
        ("_commands/options.py", "from ..__main__ import main"),
        ("_formats/zarr/groups.py", "from .. import open as x"),
        ("_formats/zarr/groups.py", "from ..registry import x"),
        ("_formats/zarr/groups.py", "from ..hdf5 import file"),
    ],
)
def test_an_upward_import(tree, file, line):
    assert found(tree, PACKAGE + file, line)


@pytest.mark.parametrize(
    "line",
    [
        'importlib.import_module("flagstone._linalg.matmul")',
        'import_module(".matmul", "flagstone._linalg")',
        '__import__("flagstone._linalg.matmul")',
        'importlib.import_module(name="flagstone.linalg")',
        'importlib.import_module("flag" + "stone._linalg")',
        "from importlib import import_module as load\nload(name)",
        'exec("import flagstone._linalg")',
        'sys.modules["flagstone._linalg.matmul"]',
        'OPENERS = {"flagstone._linalg.matmul": 1}',
    ],
)
def test_an_import_by_string(tree, line):
    assert found(tree, PACKAGE + "_array/array.py", line)


@pytest.mark.parametrize(
    "line",
    [
        'importlib.import_module("h5py")',
        'KEY = "flagstone.scratch_quota"',
        '"""Like flagstone._linalg.matmul."""',
        'class Shown:\n    __module__ = "flagstone.errors"',
    ],
)
def test_other_strings_are_allowed(tree, line):
    assert not found(tree, PACKAGE + "_array/array.py", line)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (PACKAGE + "_linalg/matmul.py", "from .._array.array import _shape"),
        (PACKAGE + "_array/regions.py", "from .array import _shape as shape"),
        (PACKAGE + "_linalg/matmul.py", "from .._array._attic import shape"),
        ("examples/planted.py", "from flagstone._array.array import Array"),
        ("examples/planted.py", "import flagstone._core"),
    ],
)
def test_a_private_name_is_never_imported(tree, file, line):
    assert found(tree, file, line)


@pytest.mark.parametrize("file", ["attic.py", "_attic/x.py", "_formats/attic/x.py"])
def test_a_python_module_on_no_floor_is_refused(tree, file):
    with tree.planted({PACKAGE + file: "x = 1\n"}):
        assert any(PACKAGE + file in error for error in check_layers.check(tree.top))


def test_a_wrong_list_of_floors_is_refused(tmp_path):
    errors = small(tmp_path, floors='[["a", "b"], ["a"]]', **{"python/package/a.py": ""})
    assert any("a stands on two floors" in error for error in errors)
    assert any("name b, which is not there" in error for error in errors)


def test_rooms_of_one_floor_do_not_see_each_other(tmp_path):
    files = {
        "python/package/_a/x.py": "from .._b import y\n",
        "python/package/_b/y.py": "from ..c import z\n",
    }
    errors = small(tmp_path, floors='[["c"], ["_a", "_b"]]', **files, **{"python/package/c.py": ""})
    assert errors == ["python/package/_a/x.py:1: _a must not import _b, which stands no lower"]
