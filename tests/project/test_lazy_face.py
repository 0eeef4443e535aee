"""`import flagstone` loads little; what is named is loaded then, and all of it is there."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl

#: The names of the face, of its rooms, and the module that each lies in.
TREE = ast.parse(Path(fl.__file__).read_text(encoding="utf-8"))


def fresh(code: str) -> str:
    """What a new process prints that imported flagstone and nothing of it yet."""
    code = f"import sys\nimport flagstone as fl\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def imported(body: list[ast.stmt]) -> set[tuple[str | None, str, str]]:
    return {
        ("" if isinstance(node, ast.Import) else node.module, alias.name, alias.asname or alias.name)
        for node in body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def test_an_import_loads_what_every_import_needs():
    before = subprocess.run(
        [sys.executable, "-c", "import sys, numpy; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    loaded = set(fresh("print(*sys.modules)").split()) - set(before)
    assert len([name for name in loaded if name.partition(".")[0] == "flagstone"]) <= 12, loaded
    assert len(loaded) <= 16, loaded  # NumPy's aside


def test_type_checkers_see_what_is_loaded():
    (checked,) = [
        node for node in TREE.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    listed = {(f"_expression.{name}", "*", "*") for name in ("functions", "namespace")}
    shown = imported(checked.body) - {("typing", "Any", "Any")} - listed
    faces = {(None, face, face) for face in ("linalg", "nuclear", "random", "sparse", "subspace")}
    loaders = [
        node for node in TREE.body if isinstance(node, ast.FunctionDef) and node.name.startswith("_load_")
    ]
    loaded = set().union(
        *(imported(node.body) for node in loaders if node.name not in ("_load_named", "_load_namespace"))
    )
    assert shown - faces == {one for one in loaded if one[0]}
    assert len([one for one in loaded if not one[0]]) == len(faces)


def test_every_name_can_be_the_first_that_is_used():
    code = """
import os
first = {load: name for name, load in fl._LOADED_BY.items()}  # one of each that are loaded together
for load, name in first.items():
    child = os.fork()
    if not child:
        try:
            assert getattr(fl, name) is not None
            assert all(one in vars(fl) for one, by in fl._LOADED_BY.items() if by is load)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
assert {*fl.__all__, "linalg", "nuclear", "random", "sparse", "subspace"} <= {*fl._LOADED_BY, *vars(fl)}
print(len(first))
"""
    assert int(fresh(code)) == 16


def test_all_names_are_listed_and_starred():
    told = fresh(
        "print(*dir(fl)); exec('from flagstone import *'); print(*(n for n in fl.__all__ if n in globals()))"
    )
    listed, starred = (line.split() for line in told.splitlines())
    assert {*fl.__all__, "errors", "linalg", "nuclear", "random", "sparse", "subspace"} <= set(listed)
    assert set(starred) == set(fl.__all__)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'flagstone' has no attribute 'matmull'"):
        _ = fl.matmull
    with pytest.raises(ImportError, match="cannot import name 'matmull'"):
        from flagstone import matmull  # noqa: F401


@pytest.mark.parametrize("opened", ['fl.open("a.zarr")', 'fl.open_raw("a.bin", "f8", (64, 64))'])
def test_what_travels_loads_what_it_needs(tmp_path, monkeypatch, opened):
    """A worker that unpickles an operand has named nothing of the face."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(1).random((64, 64))
    fl.from_numpy(values, "a.zarr")
    values.tofile("a.bin")
    Path("a.pickle").write_bytes(pickle.dumps(eval(opened)))
    code = """
import pickle
import numpy as np
A = pickle.load(open("a.pickle", "rb"))
assert np.array_equal((A + 1.0)[3:5], A[3:5] + 1.0)
print(float((A @ A)[0, 0] - A[0] @ A[:, 0]))
"""
    assert abs(float(fresh(code))) < 1e-10


@pytest.mark.parametrize(("register", "decorator"), [("OPENERS", "opener"), ("CALLS", "resumable")])
def test_registers_are_whole_where_one_is_asked(register, decorator):
    registered = re.compile(rf'^@{decorator}\("([\w ]+)"\)', re.MULTILINE)
    sources = (Path(__file__).parents[2] / "python" / "flagstone").rglob("*.py")
    written = {name for source in sources for name in registered.findall(source.read_text(encoding="utf-8"))}
    assert written
    code = f"from flagstone._resume.registers import {register} as found"
    assert set(fresh(f"{code}; print(*found, sep=chr(10))").splitlines()) == written
    assert (
        fresh(f"{code}; print('tape' in found, {min(written)!r} in found, len(found))")
        == f"False True {len(written)}"
    )
