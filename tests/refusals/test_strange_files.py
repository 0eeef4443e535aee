"""Nothing hangs: strange files where files belong, in every format, under five seconds a case."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import unsynced
from tests.support.faults import strange_files

SECONDS = 5
TOP = Path(__file__).resolve().parent.parent.parent


def test_every_format_has_a_store():
    assert not strange_files.missing_formats()


@pytest.mark.parametrize("name", strange_files.STORES)
def test_strange_files_are_answered(tmp_path, name):
    answered(tmp_path, name, "", 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", strange_files.STORES)
def test_every_strange_file_is_answered_by_everything(tmp_path, name):
    answered(tmp_path, name, "every", 90)


def answered(tmp_path, name, every, least):
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    lines: queue.Queue[str] = queue.Queue()
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.support.faults.strange_files", str(tmp_path), name, every],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TOP, env=unsynced.environment(),
    )  # fmt: skip
    assert run.stdout is not None
    reader = threading.Thread(target=lambda: [lines.put(line) for line in run.stdout], daemon=True)
    reader.start()
    said, case, raw, number = "", "", [], 0
    try:
        while said != "all":
            # What stands between two cases, and the first import, is ours.
            said = lines.get(timeout=SECONDS if said.startswith(">") else 60).rstrip("\n")
            if said.startswith("> "):
                case = said[2:]
            elif said.startswith("< "):
                number += 1
                if re.match(r"< [\d.]+ raw ", said):
                    raw.append(f"{case}: {said}")
    except queue.Empty:
        run.kill()
        pytest.fail(f"{case or said}: nothing for {SECONDS} s; {run.communicate()[1][-2000:]}")
    finally:
        run.kill()
        run.wait()
    assert not raw, "\n".join(raw)
    assert number >= least
