"""Bars: asked for by the caller, the environment or a notebook; seen in a terminal, silent elsewhere."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import types

import numpy as np
import pytest

import flagstone as fl
from flagstone._runtime import progress


class Shell:
    """What IPython runs cells of a notebook in."""


Shell.__name__ = "ZMQInteractiveShell"


@pytest.fixture
def notebook(monkeypatch):
    """IPython as a notebook has it; what was displayed."""
    pages = []
    handle = types.SimpleNamespace(update=pages.append)
    display = types.ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda page, display_id: pages.append(page) or handle
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = Shell
    ipython.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    return pages


def product():
    x = np.ones((1500, 1500))
    return fl.matmul(x, x)


def test_notebooks_have_bars_by_themselves(notebook, monkeypatch):
    with fl.Runtime():
        product()
    assert "" in notebook
    notebook.clear()
    with fl.Runtime(progress=False):
        product()
    monkeypatch.setenv("FLAGSTONE_PROGRESS", "0")
    with fl.Runtime():
        product()
    assert notebook == []


def test_a_bar_tells_how_far_it_is(notebook):
    bar = progress.Bar("matmul", progress.Whole(1 << 30), 1 << 31)
    with bar:
        bar.update(progress.Whole(1 << 29))
    assert "50%" in notebook[1]
    assert "of 2 GiB resident" in notebook[1]
    assert notebook[-1] == ""


def test_imports_have_bars(notebook, tmp_path):
    import scipy.io
    import scipy.sparse as sp

    scipy.io.mmwrite(tmp_path / "m.mtx", sp.random(300, 200, 0.2, random_state=0))
    with fl.Runtime(progress=True):
        fl.open(tmp_path / "m.mtx")
    assert any("open" in page for page in notebook)


def test_nobody_looks_and_nothing_is_printed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with fl.Runtime(progress=True) as runtime:
        assert runtime.progress is False
        product()
    assert sys.stderr.getvalue() == ""


def test_a_callable_hears_as_before():
    heard = []
    with fl.Runtime(progress=lambda now: heard.append(now.bytes_read)) as runtime:
        product()
        assert callable(runtime.progress)


def test_the_environment_is_judged(monkeypatch):
    monkeypatch.setenv("FLAGSTONE_PROGRESS", "yes")
    with pytest.raises(ValueError, match=r"FLAGSTONE_PROGRESS: 'yes' is no answer; give 1"):
        fl.Runtime()


def test_a_terminal_sees_one_line(tmp_path):
    """A pseudo terminal as standard error: the bar comes, and is gone at the end."""
    code = """
import numpy as np, flagstone as fl
from flagstone._runtime import progress
progress._PATIENCE = 0.0
a = fl.from_numpy(np.ones((2000, 2000)), "a.zarr")
with fl.Runtime(progress=True):
    fl.map_tiles(lambda tile: [tile := tile + 1 for _ in range(40)][-1], a, out="b.zarr")
"""
    try:
        master, slave = pty.openpty()
    except OSError:
        pytest.skip("no pseudo terminals here")
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=slave, env=os.environ | {"TERM": "xterm"}
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(master)
    assert child.wait() == 0
    assert b"map_tiles" in seen
    assert b"resident" in seen
