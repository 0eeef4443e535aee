"""flagstone gp, and the demonstration at a size of seconds."""

from __future__ import annotations

import json

import numpy as np
import pytest

import flagstone as fl
from flagstone.estimators import open_model
from tests.project.test_cli import run


@pytest.fixture
def soundings(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (600, 2))
    np.save(tmp_path / "X.npy", x)
    np.save(tmp_path / "y.npy", np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(600))
    np.save(tmp_path / "Z.npy", rng.uniform(0, 1, (40, 2)))
    return tmp_path


GP = ("gp", "X.npy", "y.npy", "--kernel", "matern52", "--length-scale", "0.3", "--noise", "0.01")


def test_gp_leaves_a_model_and_predictions(soundings):
    done = run(*GP, "--predict", "Z.npy", "-o", "model.zarr", folder=soundings)
    assert "log marginal likelihood" in done.stdout
    model = open_model(soundings / "model.zarr")
    mean, std = model.predict(np.load(soundings / "Z.npy"), return_std=True)
    found = np.load(soundings / "model-predictions.npy")
    assert np.array_equal(found, np.column_stack([mean, std]))
    again = run(*GP, "-o", "model.zarr", folder=soundings, code=1)
    assert "--overwrite" in again.stderr


def test_gp_plans_and_tells_json(soundings):
    plan = run(*GP, "-o", "model.zarr", "--plan", "--json", folder=soundings)
    assert json.loads(plan.stdout)["flops"] >= 600**3 / 3
    assert not (soundings / "model.zarr").exists()
    told = json.loads(run(*GP, "-o", "model.zarr", "--json", "--mean", "constant", folder=soundings).stdout)
    assert (
        told["log_marginal_likelihood"] == open_model(soundings / "model.zarr").log_marginal_likelihood_value_
    )
    assert told["noise"] == 0.01


def test_gp_refuses(soundings):
    run("gp", "X.npy", "y.npy", folder=soundings, code=2)
    wrong = run("gp", "X.npy", "Z.npy", "-o", "model.zarr", folder=soundings, code=1)
    assert "inconsistent numbers of samples" in wrong.stderr
    assert not (soundings / "model.zarr").exists()
    singular = run(
        "gp",
        "X.npy",
        "y.npy",
        "--kernel",
        "linear",
        "--noise",
        "0",
        "-o",
        "model.zarr",
        folder=soundings,
        code=1,
    )
    assert "not positive definite" in singular.stderr
    assert not (soundings / "model.zarr").exists()


def test_gp_looks_at_what_it_will_predict_before_it_fits(soundings):
    np.save(soundings / "W.npy", np.ones((5, 3)))
    before = (soundings / "X.npy").read_bytes()
    for options, told in [
        (("--predict", "nothing.npy"), "nothing.npy"),
        (("--predict", "W.npy"), "has 3 columns and X 2"),
        (("--predict", "Z.npy", "--predictions", "X.npy", "--overwrite"), "'X.npy', which is X"),
        (("--predict", "Z.npy", "--predictions", "none/p.npy"), "does not exist; create it first"),
    ]:
        done = run(*GP, "-o", "model.zarr", *options, folder=soundings, code=1)
        assert told in done.stderr
        assert not (soundings / "model.zarr").exists()
    assert (soundings / "X.npy").read_bytes() == before


def test_gp_predicts_from_matrices(soundings):
    x, z = (np.load(soundings / name) for name in ("X.npy", "Z.npy"))
    for name, one in (("K.npy", x), ("k.npy", z)):
        np.save(soundings / name, np.exp(-((one[:, None] - x) ** 2).sum(axis=2)))
    run("gp", "K.npy", "y.npy", "--kernel", "precomputed", "--noise", "0.01", "--predict", "k.npy", "-o",
        "model.zarr", folder=soundings)  # fmt: skip
    assert np.load(soundings / "model-predictions.npy").shape == (40, 1)


def test_the_demonstration(tmp_path):
    done = run("demo", "gp", "--points", "2500", "--memory", "300MiB", folder=tmp_path, timeout=600)
    assert "in the 95 % interval" in done.stdout
    assert (tmp_path / "flagstone-demo" / "gp.png").exists()
    assert fl.open(tmp_path / "flagstone-demo" / "surface.npy").shape[1] == 4
