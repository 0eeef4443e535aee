"""flagstone embed, and the demonstration at a size of seconds."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import flagstone as fl
from flagstone._demo.agreement import adjusted_mutual_information
from flagstone._demo.communities import Communities
from flagstone._edges.edges import open_graph
from tests.project.test_cli import run

PNG = b"\x89PNG"


@pytest.fixture
def edges(tmp_path):
    """Communities with ids of seven digits, each tenth edge there twice, loops, a pair beside them."""
    graph = Communities(30_000, 1000, 4, inside=0.6)
    lines = b"".join(graph.lines()).decode().splitlines()
    turned = ["\t".join(reversed(line.split())) for line in lines[::10]]
    text = "\n".join(["# a comment", *lines, *turned, "10000001 10000002", "10000003 10000003"])
    with gzip.open(tmp_path / "edges.txt.gz", "wt", 1) as file:
        file.write(text)
    return graph


def test_embed(tmp_path, edges):
    done = run("embed", "edges.txt.gz", "-k", "4", "-o", "map.zarr", "--memory", "400MiB", folder=tmp_path)
    assert "1,000 of 1,003 vertices; 3 left out, 1 of them without an edge" in done.stdout
    assert (tmp_path / "map-map.png").read_bytes().startswith(PNG)
    ids, found = (fl.open(tmp_path / "map.zarr" / name)[...] for name in ("ids", "clusters"))
    truth = edges.labels()[edges.vertices_of(ids)]
    assert adjusted_mutual_information(truth, found) > 0.95
    again = run("embed", "edges.txt.gz", "-k", "4", "-o", "map.zarr", folder=tmp_path, code=1)
    assert "--overwrite" in again.stderr


def test_embed_tells_json_and_plans(tmp_path, edges):
    plan = run("embed", "edges.txt.gz", "-k", "4", "-o", "m.zarr", "--plan", "--json", folder=tmp_path)
    assert json.loads(plan.stdout)["passes"] >= 3
    assert not (tmp_path / "m.zarr").exists()
    done = run(
        "embed", "edges.txt.gz", "-k", "5", "--clusters", "4", "-o", "m.zarr", "--json", folder=tmp_path
    )
    told = json.loads(done.stdout)
    assert len(told["values"]) == len(told["residual"]) == 5
    assert len(told["sizes"]) == 4
    assert sum(told["sizes"]) == told["vertices"] == 1000
    assert (told["components"], told["isolated"], told["left_out"]) == (3, 1, 3)
    assert told["values"][3] - told["values"][4] > 0.2


def test_weights_count_where_it_is_asked_for(tmp_path, rng):
    ends, weights = rng.integers(0, 40, (300, 2)), rng.uniform(1, 9, 300)
    lines = [f"{a},{b},{w:.3f}" for (a, b), w in zip(ends, weights, strict=True)]
    (tmp_path / "e.csv").write_text("\n".join(lines))
    wanted = np.zeros((40, 40))
    np.add.at(wanted, tuple(ends.T), weights.round(3))
    np.fill_diagonal(wanted, 0)
    weighted = open_graph(str(tmp_path / "e.csv"), weighted=True).to_scipy().toarray()
    np.testing.assert_allclose(weighted, wanted + wanted.T)
    pattern = open_graph(str(tmp_path / "e.csv")).to_scipy().toarray()
    np.testing.assert_array_equal(pattern, wanted + wanted.T > 0)


@pytest.mark.parametrize("name", ["snap-ca-AstroPh/ca-AstroPh.txt", "snap-wiki-Vote/wiki-Vote.txt"])
def test_demo_with_real_graphs(tmp_path, shared_data, name):
    done = run("demo", "graph", "--input", shared_data / name, "-k", "8", folder=tmp_path, timeout=600)
    graph = fl.open_edges(shared_data / name, symmetric=True, ids="dense", loops=False)
    count = connected_components(graph.to_scipy())[0]
    assert f"the largest of {count:,} components" in done.stdout
    assert "SciPy under the same cap" in done.stdout
    (picture,) = (tmp_path / "flagstone-demo").glob("*.png")
    assert picture.read_bytes().startswith(PNG)


def test_demo_graph_small(tmp_path):
    done = run("demo", "graph", "--edges", "200000", "--memory", "200MiB", folder=tmp_path, timeout=600)
    agreement = float(re.search(r"planted communities: (\d\.\d+)", done.stdout)[1])
    assert agreement > 0.95, done.stdout
    for words in ("Predicted against actual", "SciPy under the same cap", "largest gap", "-map.png"):
        assert words in done.stdout
    assert not (tmp_path / "flagstone-demo" / "edges.txt").exists()
    assert np.isfinite(fl.open(tmp_path / "flagstone-demo" / "map.zarr" / "values")[...]).all()
