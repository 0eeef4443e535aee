"""flagstone norm and cov, in this process."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli


@pytest.mark.parametrize(("ord", "of"), [("fro", None), ("1", 1), ("inf", np.inf), ("max", "max")])
def test_norm(tmp_path, ord, of):
    x = np.random.default_rng(0).standard_normal((30, 40))
    np.save(tmp_path / "x.npy", x)
    done = CliRunner().invoke(cli, ["norm", str(tmp_path / "x.npy"), "--ord", ord, "--json"])
    assert done.exit_code == 0, done.output
    wanted = np.abs(x).max() if of == "max" else np.linalg.norm(x, of)
    assert json.loads(done.output)["norm"] == pytest.approx(wanted, rel=1e-14)
    np.save(tmp_path / "v.npy", x[0])
    done = CliRunner().invoke(cli, ["norm", str(tmp_path / "v.npy")])
    assert float(done.output.splitlines()[0]) == pytest.approx(np.linalg.norm(x[0]), rel=1e-14)
    done = CliRunner().invoke(cli, ["norm", str(tmp_path / "x.npy"), "--plan"])
    assert "one pass" in done.output


@pytest.mark.parametrize("order", ["max", "2", "fro"])
def test_norm_of_nothing(tmp_path, order):
    np.save(tmp_path / "e.npy", np.zeros((0, 2)))
    for more in ([], ["--plan"]):
        made = CliRunner().invoke(cli, ["norm", str(tmp_path / "e.npy"), "--ord", order, *more])
        assert made.exit_code == 0, made.output
        assert more or made.output.startswith("0.0\n")


def test_cov(tmp_path):
    x = np.random.default_rng(0).standard_normal((30, 40))
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "c.zarr"
    for more, wanted in ([], np.cov(x)), (["--columns", "--correlation"], np.corrcoef(x.T)):
        done = CliRunner().invoke(cli, ["cov", str(tmp_path / "x.npy"), "-o", str(out), "--overwrite", *more])
        assert done.exit_code == 0, done.output
        np.testing.assert_allclose(np.asarray(fl.open(out)), wanted, atol=1e-12)
    done = CliRunner().invoke(cli, ["cov", str(tmp_path / "x.npy"), "-o", str(out)])
    assert "exists" in str(done.exception)
