"""The layer checker passes on the tree and fails on an arrow that points up."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(top: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_layers.py"), str(top)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path):
    """A copy of what the checker looks at."""
    for part in ("src", "python", "tools"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_tree_is_clean():
    done = check(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("src/flagstone/base/shape.hpp", '#include "flagstone/storage/array.hpp"'),
        ("src/flagstone/kernel/dense.hpp", '#include "flagstone/runtime/graph.hpp"'),
        ("src/flagstone/storage/array.hpp", '  #  include "flagstone/kernel/dense.hpp"'),
        ("src/flagstone/runtime/graph.hpp", '#include "flagstone/kernel/dense.hpp"'),
        ("src/flagstone/algorithms/linalg/matmul.hpp", '#include "flagstone/algorithms/sparse/csr_ops.hpp"'),
        ("src/flagstone/base/shape.hpp", "#include <flagstone/storage/array.hpp>"),
        ("python/flagstone/errors.py", "from flagstone import linalg"),
        ("python/flagstone/errors.py", "from .cli import main"),
        ("python/flagstone/config.py", "from .cli.common import Size"),
        ("python/flagstone/cli/common.py", "from ..__main__ import main"),
        ("python/flagstone/errors.py", "def late():\n    import flagstone.decomposition"),
    ],
)
def test_planted_upward_arrow(tree, file, line):
    path = tree / file
    path.write_text(path.read_text() + "\n" + line + "\n")
    done = check(tree)
    assert done.returncode == 1
    assert file in done.stdout


def test_a_short_include_name_is_refused(tree):
    path = tree / "src/flagstone/runtime/graph.hpp"
    path.write_text('#include "../storage/array.hpp"\n' + path.read_text())
    assert check(tree).returncode == 1


def test_a_folder_that_is_no_layer_is_refused(tree):
    (tree / "src/flagstone/attic").mkdir()
    (tree / "src/flagstone/attic/x.cpp").write_text("int x;\n")
    done = check(tree)
    assert done.returncode == 1
    assert "attic" in done.stdout


def test_a_python_module_without_a_row_is_refused(tree):
    (tree / "python/flagstone/attic.py").write_text("x = 1\n")
    done = check(tree)
    assert done.returncode == 1
    assert "attic" in done.stdout
