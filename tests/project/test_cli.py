"""The command line: help, every command, --json, exit codes, one-sentence errors, real data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

FLAGSTONE = str(Path(sys.executable).parent / "flagstone")


def run(*arguments, folder=None, code=0, timeout=300, **environment):
    done = subprocess.run(
        [FLAGSTONE, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, (done.stdout[-1500:], done.stderr[-3000:])
    return done


def fails(*arguments, folder, words):
    """A usage or run-time error: non-zero, nothing on stdout, one sentence on stderr, no traceback."""
    done = subprocess.run(
        [FLAGSTONE, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (1, 2), done
    assert "Traceback" not in done.stderr
    lines = [
        line for line in done.stderr.strip().splitlines() if line and not line.startswith(("Usage", "Try"))
    ]
    assert len(" ".join(lines)) < 500, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    return done


@pytest.fixture
def cells(tmp_path, rng):
    m = sp.random(3000, 120, 0.2, format="csr", random_state=rng)
    m.data = np.ceil(m.data * 9)
    sp.save_npz(tmp_path / "cells.npz", m)
    return m


def test_help_lists_the_commands():
    text = run("--help").stdout
    for command in ("info", "matmul", "pca", "scratch", "demo"):
        assert command in text
        assert run(command, "--help").stdout.strip()
    for option in ("--memory", "--scratch", "--plan", "--json"):
        assert option in run("pca", "--help").stdout
    assert fl.__version__ in run("--version").stdout
    done = subprocess.run(
        [sys.executable, "-m", "flagstone", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0


def test_info(tmp_path, cells):
    np.save(tmp_path / "x.npy", np.ones((30, 20), "float32"))
    text = run("info", "x.npy", folder=tmp_path).stdout
    for word in ("30", "20", "float32"):
        assert word in text
    described = json.loads(run("info", "x.npy", "--json", folder=tmp_path).stdout)
    assert "float32" in json.dumps(described)
    assert str(cells.nnz) in run("info", "cells.npz", folder=tmp_path).stdout.replace(",", "").replace(
        " ", ""
    )
    assert run("info").stdout.strip()


def test_matmul(tmp_path, rng):
    x, y = rng.random((40, 30)), rng.random((30, 50))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    done = run("matmul", "x.npy", "y.npy", "-o", "c.zarr", "--memory", "1GiB", folder=tmp_path)
    np.testing.assert_allclose(fl.open(str(tmp_path / "c.zarr"))[...], x @ y, rtol=1e-13)
    assert "\r" not in done.stdout + done.stderr  # quiet when piped
    assert "\x1b" not in done.stdout + done.stderr
    again = ["matmul", "x.npy", "y.npy", "-o", "c.zarr", "--json", "--overwrite"]
    numbers = json.loads(run(*again, folder=tmp_path).stdout)
    assert numbers


def test_eigsh_and_svd(tmp_path, rng):
    a = rng.random((80, 80))
    np.save(tmp_path / "a.npy", a + a.T)
    told = json.loads(run("eigsh", "a.npy", "-k", "3", "--which", "BE", "--json", folder=tmp_path).stdout)
    values = np.linalg.eigvalsh(a + a.T)
    np.testing.assert_allclose(told["values"], values[[-1, 0, -2]], rtol=1e-6)
    assert told["verified"]
    shown = run("svd", "a.npy", "-k", "2", "-o", "s.zarr", folder=tmp_path).stdout
    for word in ("residual", "Wrote s.zarr", "krylov-schur"):
        assert word in shown
    fails("svd", "a.npy", "-k", "2", "-o", "s.zarr", folder=tmp_path, words=["s.zarr", "--overwrite"])
    assert "block" in run("eigsh", "a.npy", "--plan", folder=tmp_path).stdout


def test_lstsq_and_qr(tmp_path, rng):
    a = rng.random((200, 3))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "y.npy", a @ [1.0, -2.0, 3.0] + 5)
    shown = run(
        "lstsq", "a.npy", "y.npy", "--ridge", "0,1", "--intercept", "-o", "x.npy", folder=tmp_path
    ).stdout
    for word in ("rank 3 of 3", "condition", "R²", "GCV", "constant", "±"):
        assert word in shown
    np.testing.assert_allclose(np.load(tmp_path / "x.npy")[0], [1, -2, 3], rtol=1e-10)
    told = json.loads(run("lstsq", "a.npy", "y.npy", "--json", "-o", "one.npy", folder=tmp_path).stdout)
    assert len(told["fit"]["x"][0]) == 3
    assert np.array_equal(np.load(tmp_path / "one.npy"), told["fit"]["x"][0])  # no axis for one ridge value
    fails("lstsq", "a.npy", "y.npy", "-o", "x.npy", folder=tmp_path, words=["x.npy", "--overwrite"])
    run("qr", "a.npy", "-o", "qr.zarr", folder=tmp_path)
    q, r = (np.asarray(fl.open(str(tmp_path / "qr.zarr" / name))) for name in "qr")
    np.testing.assert_allclose(q @ r, a, atol=1e-13)


def test_factors_and_solves(tmp_path, rng):
    a = rng.random((150, 150)) + 10 * np.eye(150)
    np.save(tmp_path / "a.npy", a @ a.T)
    np.save(tmp_path / "b.npy", a[:, :3])
    np.save(tmp_path / "v.npy", a[:, 0])
    logarithm = np.linalg.slogdet(a @ a.T)[1]
    shown = run("cholesky", "a.npy", "-o", "l.zarr", folder=tmp_path).stdout
    assert "log determinant" in shown
    assert "condition at least" in shown
    told = json.loads(run("cholesky", "a.npy", "-o", "u.npy", "--upper", "--json", folder=tmp_path).stdout)
    assert told["log_determinant"] == pytest.approx(logarithm)
    assert 1 <= told["condition_at_least"] <= np.linalg.cond(a @ a.T)
    assert told["plan"]["flops"] == pytest.approx(told["stats"]["flops"])
    np.testing.assert_allclose(np.load(tmp_path / "u.npy"), np.linalg.cholesky(a @ a.T).T, rtol=1e-10)
    told = json.loads(run("lu", "a.npy", "-o", "lu.zarr", "--json", folder=tmp_path).stdout)
    assert told["log_determinant"] == pytest.approx(logarithm)
    assert fl.linalg.open_factor(tmp_path / "lu.zarr").L.shape == (150, 150)
    run("solve", "a.npy", "b.npy", "-o", "x.npy", "--assume-a", "pos", folder=tmp_path)
    np.testing.assert_allclose(a @ a.T @ np.load(tmp_path / "x.npy"), a[:, :3], rtol=1e-9)
    run("solve", "a.npy", "v.npy", "-o", "v.zarr", folder=tmp_path)
    assert fl.open(str(tmp_path / "v.zarr")).shape == (150,)
    told = json.loads(
        run("solve", "a.npy", "b.npy", "-o", "c.npy", "--rcond", "--json", folder=tmp_path).stdout
    )
    exact = np.linalg.cond(a @ a.T, 1)
    assert exact / 3 <= told["condition"] <= exact * (1 + 1e-6)
    shown = run("solve", "a.npy", "b.npy", "-o", "m.npy", "--precision", "mixed", folder=tmp_path).stdout
    assert "refined from float32" in shown
    assert "method" in run("solve", "a.npy", "b.npy", "-o", "y.npy", "--plan", folder=tmp_path).stdout
    assert not (tmp_path / "y.npy").exists()
    fails("solve", "a.npy", "b.npy", "-o", "x.npy", folder=tmp_path, words=["x.npy", "--overwrite"])


@pytest.mark.parametrize("verb", ["matmul", "pca", "recipe single-cell"])
def test_what_is_there_is_replaced_on_request_only(tmp_path, cells, verb):
    (tmp_path / "out.zarr").mkdir()
    fl.from_numpy(np.arange(6.0), str(tmp_path / "out.zarr"), overwrite=True)
    np.save(tmp_path / "x.npy", np.ones((20, 20)))
    given = ["x.npy", "x.npy"] if verb == "matmul" else ["cells.npz", "-k", 2]
    given += ["--genes", 100] if verb.startswith("recipe") else []
    words = ["out.zarr", "exists", "--overwrite", verb]
    fails(*verb.split(), *given, "-o", "out.zarr", folder=tmp_path, words=words)
    assert np.array_equal(fl.open(str(tmp_path / "out.zarr"))[...], np.arange(6.0))
    run(*verb.split(), *given, "-o", "out.zarr", "--plan", folder=tmp_path)
    run(*verb.split(), *given, "-o", "out.zarr", "--overwrite", folder=tmp_path)
    if verb == "matmul":
        assert fl.open(str(tmp_path / "out.zarr")).shape == (20, 20)
    else:
        assert fl.open_pca(tmp_path / "out.zarr").components.shape[0] == 2


def test_plan_runs_nothing(tmp_path, rng, cells):
    np.save(tmp_path / "x.npy", rng.random((40, 40)))
    before = sorted(p.name for p in tmp_path.iterdir())
    text = run("matmul", "x.npy", "x.npy", "-o", "c.zarr", "--plan", folder=tmp_path).stdout
    assert "passes" in text
    assert "memory" in text
    text = run("pca", "cells.npz", "-k", 5, "-o", "r.zarr", "--plan", folder=tmp_path).stdout
    assert "passes" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    plan = json.loads(
        run("pca", "cells.npz", "-k", 5, "-o", "r.zarr", "--plan", "--json", folder=tmp_path).stdout
    )
    assert plan["least_memory"] > 0


def test_pca_writes_a_report(tmp_path, cells):
    run("pca", "cells.npz", "-k", 5, "--memory", "1GiB", "-o", "out.zarr", folder=tmp_path)
    assert (tmp_path / "out.zarr").is_dir()
    reports = {
        p.suffix: p for p in tmp_path.rglob("*") if p.suffix in (".png", ".json") and p.name != "zarr.json"
    }
    assert {".png", ".json"} <= set(reports)
    assert reports[".png"].read_bytes().startswith(b"\x89PNG")
    numbers = json.loads(reports[".json"].read_text())
    dense = cells.toarray()
    s = np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(numbers["singular_values"], s[:5], rtol=0, atol=1e-5 * s[0])
    done = run("pca", "cells.npz", "-k", 5, "-o", "out.zarr", "--json", "--overwrite", folder=tmp_path)
    np.testing.assert_allclose(json.loads(done.stdout)["singular_values"], s[:5], rtol=0, atol=1e-5 * s[0])


def test_scratch_lists_and_clears(tmp_path, cells):
    scratch = tmp_path / "scratch"
    run("pca", "cells.npz", "-k", 2, "-o", "r.zarr", "--scratch", scratch, folder=tmp_path)
    text = run("scratch", FLAGSTONE_SCRATCH=str(scratch)).stdout
    assert "cells.npz" in text
    described = json.loads(run("scratch", "--json", FLAGSTONE_SCRATCH=str(scratch)).stdout)
    assert "cells.npz" in json.dumps(described)
    refused = run("scratch", "--clear", FLAGSTONE_SCRATCH=str(scratch), code=2)
    assert "1 entries" in refused.stderr
    assert "add --yes" in refused.stderr
    assert "cells.npz" in run("scratch", FLAGSTONE_SCRATCH=str(scratch)).stdout
    named = run("scratch", "--clear", "--yes", FLAGSTONE_SCRATCH=str(scratch)).stdout
    assert "cells.npz" in named
    assert "Deleted 1 entries" in named
    assert "cells.npz" not in run("scratch", FLAGSTONE_SCRATCH=str(scratch)).stdout
    assert sum(f.stat().st_size for f in scratch.rglob("*") if f.is_file()) < 10_000


def test_one_sentence_errors(tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.random((40, 30)))
    fails("info", "absent.npy", folder=tmp_path, words=["absent.npy"])
    fails("matmul", "x.npy", "x.npy", "-o", "c.zarr", folder=tmp_path, words=["40 x 30"])
    fails("pca", "x.npy", "-k", 99, "-o", "c.zarr", folder=tmp_path, words=["99"])
    fails("pca", "x.npy", "-k", 3, "-o", "c.zarr", "--memory", "lots", folder=tmp_path, words=["lots"])
    fails(
        "pca", "x.npy", "-k", 3, "-o", "c.zarr", "--memory", "1MiB", folder=tmp_path, words=["1 MiB", "needs"]
    )
    fails("frobnicate", folder=tmp_path, words=["frobnicate"])
    assert not (tmp_path / "c.zarr").exists()


def test_interrupted_while_it_starts(tmp_path):
    """Ctrl-C before the package is loaded: one sentence and 130, no traceback."""
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins, os, signal\n"
        "real = builtins.__import__\n"
        "def stopping(name, *a, **k):\n"
        "    if name == 'flagstone._cli':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *a, **k)\n"
        "builtins.__import__ = stopping\n"
    )
    done = run("info", folder=tmp_path, code=130, PYTHONPATH=str(tmp_path))
    assert done.stderr == "flagstone: interrupted; nothing half-written is left.\n"


def test_convert_names_its_own_option(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    fails("convert", "x.npy", "x.npy", folder=tmp_path, words=["--overwrite"])
    fails("convert", "nope", "x.npy", folder=tmp_path, words=["nope", "does not exist"])


def test_convert_edges(tmp_path):
    (tmp_path / "e.txt").write_text("# from to\n70 50\n50 70\n50 50\n90 70\n")
    run(
        "convert", "e.txt", "g.zarr", "--edges", "--symmetric", "--duplicates", "first", "--dense-ids",
        "--no-loops", "--layout", "triangle", folder=tmp_path,
    )  # fmt: skip
    found = fl.open(tmp_path / "g.zarr")
    assert found.layout == "triangle"
    np.testing.assert_array_equal(found.to_scipy().toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(np.load(tmp_path / "g-ids.npy"), [50, 70, 90])
    options = ["--edges", "--dense-ids"]
    fails("convert", "e.txt", "h.zarr", "--symmetric", folder=tmp_path, words=["--edges"])
    fails("convert", "e.txt", "h.docx", *options, folder=tmp_path, words=["h.docx"])
    (tmp_path / "g-ids.npy").rename(tmp_path / "h-ids.npy")
    fails("convert", "e.txt", "h.zarr", *options, folder=tmp_path, words=["h-ids.npy", "--overwrite"])
    assert not (tmp_path / "h.zarr").exists()


def test_json_of_an_error_keeps_stdout_clean(tmp_path):
    done = subprocess.run(
        [FLAGSTONE, "info", "absent.npy", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == "" or json.loads(done.stdout)


def test_the_demonstration_loads_by_itself(isolated):
    """What the command imports first; the face of its data comes later."""
    assert (
        isolated("from flagstone._demo.demo import Cells\nresult = Cells.__module__") == "flagstone.datasets"
    )


@pytest.mark.parametrize("name", ["multilabel/tmc2007-500.train.X.npz", "ecrtm-20NG/test_bow.npz"])
def test_demo_with_real_data(tmp_path, shared_data, name):
    done = run("demo", "pca", "--input", shared_data / name, folder=tmp_path, timeout=600)
    text = done.stdout
    assert "residual" in text.lower()
    pictures = [word.strip(".,;:()'\"") for word in text.split() if ".png" in word]
    assert pictures, text
    assert (tmp_path / pictures[-1]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_demo_small(tmp_path):
    """The demonstration itself, at a limit at which it takes seconds."""
    done = run("demo", "--memory", "200MiB", folder=tmp_path, timeout=600)
    text = done.stdout.lower()
    for word in ("scikit-learn", "predicted", "actual", "residual", "cell types", ".png"):
        assert word in text, text


def test_dates_are_no_operand(tmp_path):
    np.save(tmp_path / "t.npy", np.arange("2000-01-01", "2000-02-01", dtype="M8[D]").reshape(1, -1))
    for command in (("norm", "t.npy"), ("sort", "t.npy", "u.npy"), ("qr", "t.npy", "-o", "q.npy")):
        fails(*command, folder=tmp_path, words=["t.npy' holds datetime64[D], and commands take numbers"])
    assert "t.npy" in run("info", "t.npy", folder=tmp_path).stdout
