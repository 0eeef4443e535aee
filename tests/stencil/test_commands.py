"""`flagstone stencil`: what the command writes and prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli


def run(*args, code=0):
    made = CliRunner().invoke(cli, [str(a) for a in args])
    assert made.exit_code == code, made.output + repr(made.exception)
    return made.output


@pytest.fixture
def field(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).random((20, 30)).astype("f4")
    fl.from_numpy(x, "x.zarr")
    return x


def test_heat(field):
    told = json.loads(
        run("stencil", "heat", "x.zarr", "--steps", 5, "--boundary", "neumann", "-o", "h.zarr", "--json",
            "--receiver", "3,4", "--traces", "heard.npy")
    )  # fmt: skip
    weights = {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(2).items()}
    made = fl.stencil(weights, field, 5, boundary="neumann", receivers=[(3, 4)])
    np.testing.assert_array_equal(np.asarray(fl.open("h.zarr")), made.state)
    np.testing.assert_array_equal(np.load("heard.npy"), made.traces)
    assert told["stats"]["stencil"]["useful_updates"] == 5 * field.size
    assert told["plan"]["bytes_written"] == told["stats"]["bytes_written"]
    assert "method" in run("stencil", "heat", "x.zarr", "--steps", 5, "--plan")


def test_waves_and_functions(field, tmp_path):
    (tmp_path / "k.py").write_text("def mix(u, c):\n    return u[0, 0] + c * (u[0, 1] - u[1, 0])\n")
    run("stencil", "k.py:mix", "x.zarr", "--steps", 3, "--coefficients", "x.zarr", "-o", "f.zarr")
    made = fl.stencil(lambda u, c: u[0, 0] + c * (u[0, 1] - u[1, 0]), field, 3, coefficients=[field]).state
    np.testing.assert_array_equal(np.asarray(fl.open("f.zarr")), made)
    run("stencil", "wave", "x.zarr", "--steps", 9, "--source", "5,6", "--frequency", 0.1, "-o", "w.zarr")
    made = fl.wave(field, 9, spacing=1.0, sources=[(5, 6)], frequency=0.1)
    np.testing.assert_array_equal(np.asarray(fl.open("w.zarr/now")), np.asarray(made.state[1]))


@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("give -o DST", ["heat", "x.zarr", "--steps", 1]),
        ("is no kernel", ["cold", "x.zarr", "--steps", 1, "-o", "o.zarr"]),
        ("whole numbers with commas", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--receiver", "a"]),
        ("--source is for wave", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--source", "1,1"]),
        ("--boundary is for heat", ["wave", "x.zarr", "--steps", 1, "-o", "o.zarr", "--boundary", "mirror"]),
        ("--coefficients is for FILE", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--coefficients", 1]),
        ("give --receiver too", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--traces", "t.npy"]),
        ("create it first", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--movie", "q/m.gif"]),
        ("end 'm.png' in .gif", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--movie", "m.png"]),
        ("give --movie too", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--section", "2"]),
        ("add --overwrite", ["heat", "x.zarr", "--steps", 1, "-o", "x.zarr"]),
        ("a receiver is at", ["heat", "x.zarr", "--steps", 1, "-o", "o.zarr", "--receiver", "99,0"]),
    ],
)
def test_what_is_refused(field, words, args):
    made = CliRunner().invoke(cli, ["stencil", *map(str, args)])
    assert made.exit_code != 0
    assert words in made.output + str(made.exception)
    np.testing.assert_array_equal(np.asarray(fl.open("x.zarr")), field)
    assert not Path("o.zarr").exists()


def test_a_movie_snapshots_and_a_comparison(field, tmp_path):
    image = pytest.importorskip("PIL.Image")
    args = ["stencil", "wave", "x.zarr", "--steps", 24, "--source", "5,6", "--frequency", 0.1]
    told = run(*args, "-o", "w.zarr", "--snapshots", "row=8@4,::2", "--movie", "m.gif", "--section", "4@:,:")
    assert "m.gif" in told
    made = fl.wave(field, 24, spacing=1.0, sources=[(5, 6)], frequency=0.1,
                   snapshots={"row": (8, np.s_[4, ::2])})  # fmt: skip
    kept = np.asarray(fl.open("w.zarr/snapshots/row/row"))
    np.testing.assert_array_equal(kept, np.asarray(made.snapshots["row"]))
    with image.open("m.gif") as movie:
        assert movie.n_frames == 6
        assert movie.size[0] % 30 == 0
    assert Path("m-frames.png").stat().st_size > 1000
    refused = CliRunner().invoke(cli, [str(a) for a in (*args, "-o", "v.zarr", "--movie", "m.gif")])
    assert "add --overwrite" in refused.output + str(refused.exception)
    compared = run("stencil", "heat", "x.zarr", "--steps", 5, "--compare")
    assert [line.split()[0] for line in compared.splitlines()[1:]] == ["al4", "al3", "al2", "al1", "sweep"]
    told = json.loads(run("stencil", "heat", "x.zarr", "--steps", 5, "--compare", "--json"))
    assert told["best"] in told["plans"]
    assert not told["refused"]


def test_a_comparison_of_what_does_not_exist():
    limit = fl._core.resident_bytes() + (150 << 20)  # of a process that holds what other tests left
    found = fl.stencil.compare(fl.laplacian(3), fl.planned((256, 256, 256), "f4"), 12, memory=limit)
    assert found.best in found.plans
    assert all(plan.method == name for name, plan in found.plans.items())
    assert found.plans["sweep"].bytes_read > found.plans[found.best].bytes_read
    refused = fl.stencil.compare(fl.laplacian(1), fl.planned(99), 2, memory="1MiB").refused
    assert set(refused) == {"al4", "al3", "al2", "al1", "sweep"}


def test_a_comparison_tells_which_methods_do_not_take_a_call():
    x, w = np.ones((6, 8), "f4"), fl.laplacian(2)
    compared = fl.stencil.compare(w, x, 4, block=(3, 8))
    assert set(compared.plans) == {"al1", "al2", "al3", "sweep"}
    assert "al4 streams whole planes" in compared.refused["al4"]
    stages = [lambda u: {"u": u[0, 1]}, lambda u: {"u": u[1, 0]}]
    changing = fl.stencil.compare(stages, {"u": x}, 4, boundary={"fixed": float})
    assert set(changing.refused) == {"al3", "al4"}
    with pytest.raises(ValueError, match="depth is 9"):
        fl.stencil.compare(w, x, 4, depth=9)
