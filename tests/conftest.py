"""Fixtures of all tests; the package under test is the installed one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("tests.support")  # their asserts explain themselves too
ROOT = Path(__file__).resolve().parent.parent

# Before the package is imported: what tests import or spill stays out of the user's own scratch directory.
_scratch = tempfile.TemporaryDirectory(prefix="flagstone-tests-")
os.environ["FLAGSTONE_SCRATCH"] = _scratch.name
os.environ.pop("FLAGSTONE_MEMORY", None)


def pytest_configure(config):
    """Ctrl-C is tested: a shell that starts a job in the background has it ignored, in children too."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data sets, which are not part of the project."""
    path = Path(os.environ.get("FLAGSTONE_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"real data sets are not here ({path}); set FLAGSTONE_TEST_DATA")
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed
    return report


@pytest.fixture(scope="session")
def remover():
    """A process that removes folders: each file waits 3 ms for the disk, and a test makes dozens."""
    removing = subprocess.Popen(
        ["xargs", "-0", "-r", "-n", "1", "rm", "-rf"], stdin=subprocess.PIPE, start_new_session=True
    )
    yield removing.stdin
    removing.stdin.close()
    removing.wait()


@pytest.fixture
def tmp_path(tmp_path_factory, request, remover) -> Path:
    """As pytest's; that of a test which failed stays, others go beside the next tests."""
    path = tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:30])
    yield path
    if not request.node.failed:
        remover.write(os.fsencode(path) + b"\0")
        remover.flush()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


def _code_of(code: str, given: dict) -> str:
    """Code that has `given` at hand, and prints what it assigned to `result`."""
    return (
        "import json, sys, os\nimport numpy as np\nimport flagstone as fl\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        f"globals().update(json.loads({json.dumps(given)!r}))\nresult = None\n"
        + textwrap.dedent(code)
        + "\nprint('RESULT' + json.dumps(result))\n"
    )


def _result_of(done: subprocess.CompletedProcess[str]):
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.rpartition("RESULT")[2])


@pytest.fixture
def isolated(tmp_path):
    """Runs Python code in a process of its own, in tmp_path; returns what it assigned to `result`."""

    def run(
        code: str, *, env: dict[str, str] | None = None, timeout: float = 300, check: bool = True, **values
    ):
        done = subprocess.run(
            [sys.executable, "-c", _code_of(code, values)],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return _result_of(done) if check else done

    return run


@pytest.fixture
def checkpointed(tmp_path):
    """As `isolated`, with checkpoints at every opportunity; `kill`: its prologue ends it after so many."""
    from tests.support import forked

    def run(code: str, kill: int = 0, **values):
        always = {**os.environ, "FLAGSTONE_CHECKPOINT_SECONDS": "0"}
        done = forked.run(_code_of(code, {**values, "kill": kill}), tmp_path, always, 300)
        if not kill:
            return _result_of(done)
        assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
        return done

    return run


@pytest.fixture
def process(checkpointed):
    """`checkpointed` code that has `digest` and `told` (killed_calls.py) at hand."""
    from tests.support.killed_calls import PROLOGUE

    return lambda code, kill=0, **values: checkpointed(PROLOGUE + code, kill, **values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all tests of a file, where examples by the hundred replace each other."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="session")
def operands(tmp_path_factory):
    """The folder with the operands of every_routine.py, some 600 MB."""
    from tests.support.every_routine import prepare

    folder = tmp_path_factory.mktemp("operands")
    prepare(folder)
    yield folder
    shutil.rmtree(folder)
