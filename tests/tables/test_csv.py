"""Separated values: in by every worker, out by panels, against pandas and pyarrow."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone._formats.text import csv as csv_reader
from flagstone._maintenance.info import describe
from tests.support.examples import examples


def written(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_table_of_pandas(tmp_path):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"a": rng.standard_normal(3000), "b,c": rng.integers(-9, 9, 3000), "d": rng.random(3000)}
    )
    table.loc[7, "a"] = np.nan
    table.to_csv(tmp_path / "x.csv", index=False)
    a = fl.open(tmp_path / "x.csv")
    assert a.shape == (3000, 3)
    assert a.dtype == np.float64
    assert a.columns == ["a", "b,c", "d"]
    np.testing.assert_array_equal(np.asarray(a), table.to_numpy())
    assert a.T.columns is None


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize("packed", [False, True])
def test_delimiters_are_found(tmp_path, delimiter, packed):
    text = "\n".join(delimiter.join(map(str, row)) for row in [("x", "y", "z"), (1, 2.5, 3), (4, 5, 6)])
    place = tmp_path / ("x.csv.gz" if packed else "x.csv")
    written(place, gzip.compress(text.encode()) if packed else text)
    a = fl.open(place)
    np.testing.assert_array_equal(a[:], [[1, 2.5, 3], [4, 5, 6]])
    assert a.columns == ["x", "y", "z"]
    facts = describe(str(place))
    assert facts["delimiter"] == {"\t": "tab", " ": "blank"}.get(delimiter, f"'{delimiter}'")
    assert facts["header"] == "yes"


@pytest.mark.parametrize(("text", "names", "rows"), [
    ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
    ("a,b\n3,4\n", ["a", "b"], [[3, 4]]),
    ("0,1\n.5,.25\n", ["0", "1"], [[0.5, 0.25]]),  # as pandas counts columns
    (",0,1\n0,.5,.25\n", [None, "0", "1"], [[0, 0.5, 0.25]]),  # and its index
    ("\ufeffa,b\r\n3,4\r\n", ["a", "b"], [[3, 4]]),
    ("\n\na,b\n\n3,4\n\n", ["a", "b"], [[3, 4]]),
    ("a,b\n3,4", ["a", "b"], [[3, 4]]),
    ('"a ""1""","b\nc"\n3,"4"\n', ['a "1"', "b\nc"], [[3, 4]]),
    ("a\n3\n4\n", ["a"], [[3], [4]]),
    ("a,b\n", ["a", "b"], np.empty((0, 2))),
])  # fmt: skip
def test_headers_are_found(tmp_path, text, names, rows):
    a = fl.open(written(tmp_path / "x.csv", text))
    assert a.columns == names
    np.testing.assert_array_equal(a[:], rows)


def test_headers_that_are_given(tmp_path):
    place = written(tmp_path / "x.csv", "1,2\n3,4\n")
    assert fl.open(place, header=True).columns == ["1", "2"]
    assert fl.open(place, header=["a", "b"]).columns == ["a", "b"]
    np.testing.assert_array_equal(fl.open(place, header=["a", "b"])[:], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(fl.open(place, key="1")[:], [[2], [4]])
    named = written(tmp_path / "named.csv", "1900,2000\n3.5,4\n")
    np.testing.assert_array_equal(fl.open(named, header=True)[:], [[3.5, 4]])
    with pytest.raises(fl.FormatError, match="gives 1 names; give one for each"):
        fl.open(place, header=["a"])


def test_columns_by_name_and_what_is_left_out(tmp_path):
    place = written(
        tmp_path / "x.csv", "id,a,day,b\nx1,1.5,2020-01-01 10:30:00,2\nx2,NA,2020-01-02 10:30:00,3\n"
    )
    with pytest.warns(UserWarning, match="left out: id, day"):
        a = fl.open(place)
    assert a.columns == ["a", "b"]
    np.testing.assert_array_equal(a[:], [[1.5, 2], [np.nan, 3]])
    b = fl.open(place, key="b,a")
    assert b.columns == ["b", "a"]
    np.testing.assert_array_equal(b[:], [[2, 1.5], [3, np.nan]])
    with pytest.raises(fl.Error, match="'c' of .* is not there; it has id, a, day, b"):
        fl.open(place, key="c")
    with pytest.raises(fl.FormatError, match="named twice"):
        fl.open(place, key="a,a")
    with pytest.raises(fl.FormatError, match="line 2, column 'id': 'x1' is no number"):
        fl.open(place, key="id,a")


def test_types_of_columns(tmp_path):
    whole = fl.open(written(tmp_path / "whole.csv", f"a,b\n1,{2**63 - 1}\n-4,{-(2**63)}\n"))
    assert whole.dtype == np.int64
    assert whole[:].tolist() == [[1, 2**63 - 1], [-4, -(2**63)]]
    late = "a,b\n" + "1,2\n" * 200_000 + "3,4.5\n"  # far behind what is looked at first
    mixed = fl.open(written(tmp_path / "late.csv", late))
    assert mixed.dtype == np.float64
    assert mixed.shape == (200_001, 2)
    assert mixed[-1].tolist() == [3, 4.5]
    truth = fl.open(written(tmp_path / "truth.csv", "a,b\nTrue,1\nFalse,0\n"))
    assert truth[:].tolist() == [[1, 1], [0, 0]]
    large = written(tmp_path / "large.csv", f"a,b\n{2**53 + 1},1\n2,2.5\n")
    with pytest.raises(
        fl.FormatError, match=rf"line 2, column 'a': {2**53 + 1} is an integer that float64.*key='a'"
    ):
        fl.open(large)
    assert fl.open(large, key="a")[:].tolist() == [[2**53 + 1], [2]]
    # Reals are rounded where they are written as integers too.
    real = fl.open(written(tmp_path / "real.csv", f"a\n{2**53 + 1}\n2.5\n"))
    assert real[0, 0] == 2**53


ROWS = "".join(f"{i},{i + 0.5}\n" for i in range(150_000))


@pytest.mark.parametrize(("text", "line", "said"), [
    ("a,b\n1,2\n3\n", 3, "it has 1 field (separated by ','), and 2 are needed"),
    ("a,b\n1,2\n3,4,5,6\n", 3, "it has 4 fields"),
    ("a,b\n1,2\n\n3,x y\n", 4, "column 'b': 'x y' is no number"),
    ("a,b\n" + ROWS + "1,2,3\n", 150_002, "it has 3 fields"),
    ("a,b\n" + ROWS + "1,two\n", 150_002, "column 'b': 'two' is no number"),
    ("1.5,2\n" + ROWS + "1,1_000\n", 150_002, "column '1': '1_000' is no number"),
    ("t,a\n" + '"1\n2",3\n' * 5 + '"x",y\n', 12, "column 'a': 'y' is no number"),
    ("a,b\n1,2\n3,\0\n", 3, "zero byte"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*left out")
def test_what_is_wrong_is_said_with_its_line(tmp_path, text, line, said):
    place = written(tmp_path / "x.csv", text)
    with pytest.raises(fl.FormatError, match=f"line {line}.*{re.escape(said)}"):
        fl.convert(place, tmp_path / "x.zarr")
    assert [one.name for one in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize(("text", "said"), [
    ("", "is empty"),
    ("\n \n", "has no rows"),
    ('a,b\n1,"2\n3,4\n', "never closed"),
    ("a,b\nx,y\nz,w\n", "no columns of numbers (separated by ','"),
    ("a,b\n1,2\n".encode("utf-16"), "is UTF-16 text"),
])  # fmt: skip
def test_files_that_are_no_tables(tmp_path, text, said):
    with pytest.raises(fl.FormatError, match=re.escape(said)):
        fl.open(written(tmp_path / "x.csv", text))


def test_a_wrong_delimiter(tmp_path):
    place = written(tmp_path / "x.csv", "a,b\n1,2\n3,4\n")
    with pytest.raises(fl.FormatError, match="one field a line when ';' separates them.*delimiter=','"):
        fl.open(place, delimiter=";")
    for wrong in (",,", "", '"', 5):
        with pytest.raises(ValueError, match="delimiter is"):
            fl.open(place, delimiter=wrong)
    with pytest.raises(TypeError, match="header is 'a'"):
        fl.open(place, header="a")
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(fl.FormatError, match="is npy; header is for CSV"):
        fl.open(tmp_path / "x.npy", header=True)
    with pytest.raises(TypeError, match="'delimiter' is no option of npy"):
        fl.convert(tmp_path / "x.npy", tmp_path / "y.npy", delimiter=";")


def test_files_that_are_read_as_one(tmp_path):
    whole = np.arange(24.0).reshape(8, 3) / 3
    for i, part in enumerate(np.array_split(whole, 3)):
        pd.DataFrame(part, columns=list("abc")).to_csv(tmp_path / f"p{i}.csv", index=False)
    fl.convert(str(tmp_path / "p*.csv"), tmp_path / "x.zarr")
    x = fl.open(tmp_path / "x.zarr")
    np.testing.assert_array_equal(x[:], whole)
    assert x.columns == ["a", "b", "c"]
    fl.convert([tmp_path / "p2.csv", tmp_path / "p0.csv"], tmp_path / "y.npy", key="c,a")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.r_[whole[6:], whole[:3]][:, [2, 0]])
    written(tmp_path / "p3.csv", "a,b\n1,2\n")
    with pytest.raises(
        fl.FormatError, match=r"p3.csv' has other columns than .*p0.csv' \(2: a, b and 3: a, b, c\)"
    ):
        fl.convert(str(tmp_path / "p*.csv"), tmp_path / "z.zarr")
    with pytest.raises(fl.Error, match="no file matches"):
        fl.convert(str(tmp_path / "q*.csv"), tmp_path / "z.zarr")
    with pytest.raises(fl.FormatError, match="not all CSV or all Parquet"):
        fl.convert([tmp_path / "p0.csv", tmp_path / "y.npy"], tmp_path / "z.zarr")
    assert not (tmp_path / "z.zarr").exists()


def test_every_block_and_limit_gives_the_same(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    values = rng.standard_normal((9000, 7))
    lines = [",".join(map(repr, row)) for row in values.tolist()]
    lines[100] += "\n\n  "  # empty lines move rows out of step with blocks
    lines[4000] = ",".join(f'"{v!r}"' for v in values[4000].tolist())
    place = written(tmp_path / "x.csv", "\n".join(lines))
    monkeypatch.setattr(csv_reader, "_TEXT", 20_000)
    monkeypatch.setattr(csv_reader, "_LEAST", 2_000)
    for workers in (1, 2, 5):
        with fl.Runtime(workers=workers):
            fl.convert(place, tmp_path / "x.zarr", overwrite=True)
        np.testing.assert_array_equal(fl.open(tmp_path / "x.zarr")[:], values)
    assert fl.check(tmp_path / "x.zarr").ok


def test_more_rows_than_the_first_lines_promise(tmp_path):
    """Long lines first: the array grows while it is written, and ends with the rows that came."""
    text = "a,b\n" + f"{'0' * 300}1,2.5\n" * 4000 + "1,2.5\n" * 200_000 + f"{'0' * 9000}3,4.5\n"
    a = fl.open(written(tmp_path / "x.csv", text))
    assert a.shape == (204_001, 2)
    assert float(a.sum()) == 204_000 * 3.5 + 7.5
    short = fl.open(
        written(tmp_path / "y.csv", "a,b\n" + "1,2.5\n" * 200_000 + f"{'0' * 3000}1,2.5\n" * 1000)
    )
    assert short.shape == (201_000, 2)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "u8", "i2", "?"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz", "x.tsv.gz"])
def test_what_is_written_reads_back(tmp_path, dtype, name):
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    bits = rng.integers(0, 2 if dtype == "?" else 256, 70 * 5 * kind.itemsize, dtype=np.uint8)
    values = bits.view(kind).reshape(70, 5)
    values = np.where(np.isnan(values), kind.type(-0.0), values) if kind.kind == "f" else values
    if kind == np.uint64:
        values = values >> np.uint64(1)
    fl.from_numpy(values, tmp_path / "x.zarr")
    fl.convert(tmp_path / "x.zarr", tmp_path / name)
    back = fl.open(tmp_path / name)
    assert back.columns is None
    assert back[:].astype(kind).tobytes() == values.tobytes()
    frame = pd.read_csv(
        tmp_path / name, header=None, sep="\t" if ".tsv" in name else ",", float_precision="round_trip"
    )
    np.testing.assert_array_equal(frame.to_numpy().astype(kind), values)


def test_names_of_columns_go_through(tmp_path):
    place = written(tmp_path / "x.csv", 'a,"b,c",\n1,2,3\n4,nan,6\n')
    fl.convert(place, tmp_path / "x.zarr")
    fl.convert(tmp_path / "x.zarr", tmp_path / "y.zarr")
    y = fl.open(tmp_path / "y.zarr")
    assert y.columns == ["a", "b,c", None]
    fl.convert(y, tmp_path / "y.csv")
    assert (tmp_path / "y.csv").read_text() == 'a,"b,c",\n1.0,2.0,3.0\n4.0,nan,6.0\n'
    fl.convert(y, tmp_path / "bare.csv", header=False, delimiter=";")
    assert (tmp_path / "bare.csv").read_text() == "1.0;2.0;3.0\n4.0;nan;6.0\n"
    fl.convert(y, tmp_path / "named.csv", header=["x", "y", "z"])
    table = pyarrow.csv.read_csv(tmp_path / "named.csv")
    assert table.column_names == ["x", "y", "z"]
    np.testing.assert_array_equal(table["y"].to_numpy(), [2, np.nan])
    with pytest.raises(fl.FormatError, match="gives 1 names and the source has 3 columns"):
        fl.convert(y, tmp_path / "z.csv", header=["x"])
    fl.from_numpy(np.arange(3), tmp_path / "vector.zarr")
    fl.convert(tmp_path / "vector.zarr", tmp_path / "vector.csv")
    assert (tmp_path / "vector.csv").read_text() == "0\n1\n2\n"
    with pytest.raises(fl.FormatError, match="has no names of columns"):
        fl.convert(tmp_path / "vector.zarr", tmp_path / "v.csv", header=True)
    for wrong in (np.ones((2, 2, 2)), np.ones((2, 2), complex)):
        with pytest.raises(fl.FormatError, match="CSV holds columns of real numbers"):
            fl.convert(fl.from_numpy(wrong), tmp_path / "z.csv")
    assert not (tmp_path / "z.csv").exists()


@examples(30)
@given(
    st.lists(
        st.tuples(*[st.one_of(st.floats(), st.integers(-(2**53), 2**53), st.just(None), st.booleans())] * 3),
        min_size=1, max_size=30,
    ),
    st.sampled_from([",", ";", "\t"]), st.sampled_from(["\n", "\r\n"]), st.booleans(),
)  # fmt: skip
def test_any_table_is_read_as_pandas_reads_it(tmp_path_factory, rows, delimiter, end, quoted):
    words = [["" if v is None else repr(v) for v in row] for row in rows]
    if quoted:
        words = [[f'"{w}"' for w in row] for row in words]
    text = "a" + delimiter + "b" + delimiter + "c" + end + "".join(delimiter.join(row) + end for row in words)
    place = written(tmp_path_factory.mktemp("any") / "x.csv", text)
    expected = [[np.nan if v is None else float(v) for v in row] for row in rows]
    found = fl.open(place, delimiter=delimiter, header=True)[:]
    np.testing.assert_array_equal(found.astype(float), np.array(expected, dtype=float))


def test_the_command_line(tmp_path):
    from click.testing import CliRunner

    from flagstone._cli import cli

    for i in range(2):
        written(tmp_path / f"p{i}.csv", f"{i};2\n3;4\n")
    ran = CliRunner().invoke(
        cli, ["convert", str(tmp_path / "p*.csv"), str(tmp_path / "x.tsv"), "--no-header", "--delimiter", ";"]
    )
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "x.tsv").read_text() == "0\t2\n3\t4\n1\t2\n3\t4\n"
