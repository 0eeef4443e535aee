"""Lists of edges: SciPy's matrices of the same lines."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.sparse.test_from_coo import of_scipy, same
from tests.support.processes import beside


def of_lines(path):
    edges = np.loadtxt(path, np.int64, comments=["#", "%"])
    ids, dense = np.unique(edges, return_inverse=True)
    return edges, ids, dense.reshape(edges.shape)


@pytest.mark.parametrize("name", ["snap-ca-AstroPh/ca-AstroPh.txt", "snap-wiki-Vote/wiki-Vote.txt"])
def test_real_graphs(name, shared_data):
    path = shared_data / name
    edges, ids, dense = of_lines(path)
    n = int(edges.max()) + 1
    ones = np.ones(len(edges), "i4")
    same(fl.open_edges(path), of_scipy(edges[:, 0], edges[:, 1], ones, (n, n)))
    dense = dense[edges[:, 0] != edges[:, 1]]  # a vertex that has a loop alone stays
    ones = ones[: len(dense)]
    wanted = of_scipy(*dense.T, ones, (len(ids), len(ids)))
    found = fl.open_edges(path, ids="dense", symmetric=True, loops=False)
    same(found, (wanted + wanted.T).tocsr())
    np.testing.assert_array_equal(found.ids[...], ids)


def test_names_of_any_64_bits(tmp_path):
    large = [1 << 63, (1 << 64) - 1, 5]
    (tmp_path / "e.txt").write_text("".join(f"{one} {large[2]}\n" for one in large[:2]))
    np.save(tmp_path / "e.npy", np.array([[large[0], 5], [large[1], 5]], "u8"))
    for name in ("e.txt", "e.npy"):
        found = fl.open_edges(tmp_path / name, ids="dense")
        np.testing.assert_array_equal(found.ids[...], np.array([5, *large[:2]], "u8"))
        np.testing.assert_array_equal(found.to_scipy().toarray(), [[0, 0, 0], [1, 0, 0], [1, 0, 0]])
        with pytest.raises(fl.Error, match="9223372036854775808|18446744073709551615"):
            fl.open_edges(tmp_path / name)
    (tmp_path / "e.txt").write_text(f"-1 2\n{1 << 63} 2\n")
    with pytest.raises(fl.FormatError, match="negative ids and ids of 2"):
        fl.open_edges(tmp_path / "e.txt", ids="dense")
    (tmp_path / "e.txt").write_text("# none\n")
    assert fl.open_edges(tmp_path / "e.txt", ids="dense").ids.shape == (0,)


def test_docword(shared_data):
    path = shared_data / "uci-kos" / "docword.kos.txt"
    rows, words, entries = (int(n) for n in np.loadtxt(path, max_rows=3))
    lines = np.loadtxt(path, np.int64, skiprows=3)
    assert len(lines) == entries
    counts = lines[:, 2].astype("f8")
    same(fl.open_edges(path), of_scipy(lines[:, 0] - 1, lines[:, 1] - 1, counts, (rows, words)))
    opened = fl.open(path)
    assert opened.dtype == np.int64
    assert (opened.to_scipy() != of_scipy(lines[:, 0] - 1, lines[:, 1] - 1, counts, (rows, words))).nnz == 0


@pytest.mark.parametrize("ending", ["txt", "csv", "txt.gz", "npy"])
def test_every_form(ending, tmp_path, rng):
    edges = rng.integers(0, 30, (500, 2))
    edges[7:9] = (1 << 40) + 5
    path = tmp_path / f"edges.{ending}"
    if ending == "npy":
        np.save(path, edges)
    else:
        between = ", " if ending == "csv" else "\t"
        lines = ["# a comment", "% another", "", *(f"{a}{between}{b}" for a, b in edges), "  # the end"]
        opened = gzip.open if ending.endswith("gz") else open
        with opened(path, "wt") as file:
            file.write("\n".join(lines))
    ids, dense = np.unique(edges, return_inverse=True)
    dense = dense.reshape(edges.shape)
    found = fl.open_edges(path, ids="dense", duplicates="first")
    wanted = of_scipy(*dense.T, np.ones(500, "i4"), (len(ids),) * 2)
    wanted.data[:] = 1
    same(found, wanted)
    np.testing.assert_array_equal(found.ids[...], ids)


def test_bad_lines_are_named(tmp_path):
    path = tmp_path / "edges.txt"

    def refused(match, text, **options):
        path.write_text(text)
        with pytest.raises((fl.FormatError, fl.ShapeError), match=match):
            fl.open_edges(path, **options)

    refused("line 3, column 2 is '1.5'; a whole number", "# c\n1 2\n3 1.5\n")
    refused("line 2, column 1 is 'x'", "1 2\nx 3\n")
    refused("line 2, column 1 is '9223372036854775808'", "1 2\n9223372036854775808 3\n")
    refused("line 3 has 1 columns; 2 are needed", "1 2\n3 4\n5")
    refused("line 2, column 3 is 'many'", "1 2 3\n4 5 many\n")
    refused("has 4 columns in line 1", "1 2 3 4\n")
    refused("the row -1", "-1 2\n")
    refused("says that it has 3 entries and has 1", "2\n2\n3\n1 1 5\n")
    refused("no vertices of one kind", "2\n2\n1\n1 1 5\n", symmetric=True)
    refused("the row 2 and the shape is 2 x 2", "2\n2\n1\n3 1 5\n")
    path.write_text("# nothing\n")
    assert fl.open_edges(path).shape == (0, 0)
    with pytest.raises(ValueError, match="ids is 'sparse'"):
        fl.open_edges(path, ids="sparse")
    assert sp.issparse(fl.open_edges(path, ids="dense").to_scipy())


def test_what_is_no_list_of_edges(tmp_path):
    def refused(error, match, path, **options):
        with pytest.raises(error, match=match):
            fl.open_edges(path, **options)

    path = tmp_path / "edges.txt"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1\n")
    refused(fl.FormatError, "is MatrixMarket; fl.open reads it", path)
    path.write_text(f"1 {1 << 62}\n")
    refused(ValueError, "duplicates is 'x'", path, duplicates="x")
    refused(fl.FormatError, f"the last row is {1 << 62}", path)
    assert fl.open_edges(path, ids="dense").shape == (2, 2)
    refused(fl.errors.MissingError, "none.txt' does not exist", tmp_path / "none.txt")
    refused(fl.FormatError, "is a directory", tmp_path)
    refused(TypeError, "open_edges: the path is 3", 3)
    packed = tmp_path / "edges.txt.gz"
    packed.write_bytes(b"1 2\n")
    refused(fl.FormatError, "is no gzip file, or was cut", packed)
    packed.write_bytes(gzip.compress(b"1 2\n" * 1000)[:-9])
    refused(fl.FormatError, "is no gzip file, or was cut", packed)


@pytest.mark.parametrize("last", ["", "\n7 8 \n\n# the end"])
def test_pieces_of_plain_numbers_and_others(last, tmp_path, rng):
    """Some pieces are read at once, others line by line: the same entries, and lines are counted alike."""
    edges = rng.integers(0, 1000, (150_000, 2))
    path = tmp_path / "edges.txt"
    text = "\n".join(f"{a}\t{b}" for a, b in edges)
    path.write_text(f"# first\n{text}{last}")
    wanted = edges if "7" not in last else np.vstack([edges, [7, 8]])
    same(fl.open_edges(path), of_scipy(*wanted.T, np.ones(len(wanted), "i4"), (1000, 1000)))
    path.write_text(f"# first\n{text}\n5\n")
    with pytest.raises(fl.FormatError, match="line 150002 has 1 columns"):
        fl.open_edges(path)


def test_numbers_of_nineteen_digits(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 9223372036854775807\n1000000000000000000 0\n")
    assert fl.open_edges(path, ids="dense").ids[...].tolist() == [0, 10**18, 2**63 - 1]
    path.write_text("0 9223372036854775808\n")
    with pytest.raises(fl.FormatError, match="column 2 is '9223372036854775808'"):
        fl.open_edges(path)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_tables_of_edges(ending, tmp_path, rng):
    pyarrow = pytest.importorskip("pyarrow")
    edges, weights = rng.integers(0, 50, (2, 400)), rng.random(400)
    table = pyarrow.table({"from": edges[0], "to": edges[1], "weight": weights})
    path = tmp_path / f"edges.{ending}"
    if ending == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path, row_group_size=150)
    else:
        with pyarrow.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=150)
    found = fl.open_edges(path, memory=beside(900))
    wanted = sp.coo_matrix((weights, tuple(edges)), (50, 50)).toarray()
    np.testing.assert_allclose(found.to_scipy().toarray(), wanted, rtol=1e-12)
