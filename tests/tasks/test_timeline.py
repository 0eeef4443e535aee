"""Timelines: every event of a run is in the file, whose format is that of viewers; the bits stay."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli
from flagstone._terminal.timeline import read_runs, report
from tests.support.processes import output_of


@pytest.fixture
def operands(tmp_path):
    rng = np.random.default_rng(0)
    a = fl.from_numpy(rng.random((700, 900)), tmp_path / "a.zarr", codec="blosc-lz4")
    b = fl.from_numpy(rng.random((900, 500)), tmp_path / "b.zarr")
    return a, b


def events(path):
    return json.loads(path.read_text())


def test_every_task_and_byte_is_in_it(operands, tmp_path):
    a, b = operands
    with fl.timeline(tmp_path / "run.json"):
        c = fl.matmul(a, b)
        product = fl.stats()
        total = float(fl.compute(np.log1p(a).sum()))
    assert total == float(fl.compute(np.log1p(a).sum()))
    assert np.array_equal(c[...], fl.matmul(a, b)[...])
    found = events(tmp_path / "run.json")
    spans = [event for event in found if event["ph"] == "X"]
    assert {event["cat"] for event in spans} >= {"task", "disk"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    first = [event for event in spans if event["pid"] == 1]
    moved = {name: sum(e["args"]["bytes"] for e in first if e["name"] == name) for name in ("load", "store")}
    assert moved["load"] == product.bytes_read
    assert moved["store"] == product.bytes_written
    assert sum(event["cat"] == "task" for event in first) == product.tasks
    names = {event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert names == {"run 1: matmul", "run 2: compute"}
    assert any("a.zarr" in event["args"].get("about", "") for event in first)


def test_events_of_one_row_do_not_overlap(operands, tmp_path):
    with fl.timeline(tmp_path / "run.json"):
        fl.rechunk(operands[0], (100, 900), out=tmp_path / "c.zarr")
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events(tmp_path / "run.json"):
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"])
            )
    for spans in rows.values():
        spans.sort()
        assert all(end <= begin + 0.002 for (_, end), (begin, _) in itertools.pairwise(spans))


def test_the_limit_counts_the_buffer(operands, tmp_path):
    a, b = operands
    least = fl.matmul.plan(a, b).least_memory
    with fl.timeline(tmp_path / "run.json"):
        assert fl.matmul.plan(a, b).least_memory >= least
        with pytest.raises(fl.BudgetError):
            fl.matmul(a, b, memory="20MiB")


def test_what_is_there_stays(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("mine")
    with pytest.raises(fl.StorageError, match="exists; pass overwrite=True"), fl.timeline(path):
        pass
    assert path.read_text() == "mine"
    with fl.timeline(path, overwrite=True):
        pass
    assert path.read_text().startswith("[")
    with pytest.raises(fl.StorageError, match="is a directory"), fl.timeline(tmp_path):
        pass
    with pytest.raises(fl.StorageError), fl.timeline(tmp_path / "missing" / "run.json"):
        pass


def test_one_at_a_time_and_the_next_begins_anew(operands, tmp_path):
    with fl.timeline(tmp_path / "one.json"):
        with (
            pytest.raises(fl.Error, match=r"one\.json' is being written"),
            fl.timeline(tmp_path / "two.json"),
        ):
            pass
        assert not (tmp_path / "two.json").exists()
        (tmp_path / "mine.json").write_text("mine")
        for path in (tmp_path / "mine.json", tmp_path / "one.json"):
            with pytest.raises(fl.Error, match="is being written"), fl.timeline(path, overwrite=True):
                pass
        assert (tmp_path / "mine.json").read_text() == "mine"
        assert (tmp_path / "one.json").exists()
    with pytest.raises(ValueError, match="mine"), fl.timeline(tmp_path / "two.json"):
        fl.matmul(*operands)
        raise ValueError("mine")
    assert len(read_runs(tmp_path / "two.json")) == 1


def test_a_full_disk_is_told_at_the_end_and_the_calls_go_on(tmp_path):
    code = """
import resource
import numpy as np
import flagstone as fl
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    with fl.timeline("run.json"):
        print(float(fl.sum(np.ones((300, 300)))))
except fl.StorageError as error:
    print(error)
"""
    total, sentence = output_of("-c", code, folder=tmp_path).splitlines()
    assert total == "90000.0"
    assert "timeline: not all of it could be written" in sentence


def test_a_killed_process_leaves_what_viewers_read(operands, tmp_path):
    with fl.timeline(tmp_path / "run.json"):
        fl.matmul(*operands)
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "cut.json").write_text(text[: len(text) * 2 // 3])
    (run,) = read_runs(tmp_path / "cut.json")
    assert run.seconds > 0
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(fl.FormatError, match="no file of flagstone timeline"):
        read_runs(tmp_path / "other.json")


def test_the_command_line_writes_tells_and_draws(operands, tmp_path):
    a, b = (str(tmp_path / name) for name in ("a.zarr", "b.zarr"))
    trace, picture = str(tmp_path / "t.json"), tmp_path / "t.png"
    runner = CliRunner()
    done = runner.invoke(cli, ["matmul", a, b, "-o", str(tmp_path / "c.zarr"), "--timeline", trace])
    assert done.exit_code == 0, done.output
    told = runner.invoke(cli, ["timeline", trace, "-o", str(picture)])
    assert told.exit_code == 0, told.output
    assert "run 1: matmul" in told.output
    assert "gemm" in told.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (
        "exists; --overwrite replaces it"
        in runner.invoke(cli, ["timeline", trace, "-o", str(picture)]).output
    )
    assert "holds 1 runs" in runner.invoke(cli, ["timeline", trace, "--run", "2"]).output
    assert (
        runner.invoke(cli, ["matmul", a, b, "-o", "x.zarr", "--plan", "--timeline", "n.json"]).exit_code == 0
    )


def test_waits_are_named(tmp_path):
    """A worker that waited from 0 to 3 s, while a load came in at 2.9 s."""

    def span(**given):
        return json.dumps({"ph": "X", "pid": 1, **given})

    wait = span(name="wait", cat="wait", tid=0, ts=0, dur=3e6, args={})
    load = span(name="load", cat="disk", tid=1000, ts=1e6, dur=1.9e6, args={"about": "x at 0", "bytes": 4})
    head = json.dumps({"name": "thread_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "worker 0"}})
    (tmp_path / "t.json").write_text(f"[\n{head},\n{wait},\n{load}\n]\n")
    (run,) = read_runs(tmp_path / "t.json")
    assert "3 s, worker 0 at 0 s, until the load of x at 0" in report(run)


def test_thousands_of_small_tiles(tmp_path):
    """Stores complete while their conversion is still being told."""
    values = np.ones((16 * 20_000, 16), "f4")
    small = fl.create(tmp_path / "small.zarr", values.shape, "f4", (16, 16))
    small[...] = values
    with fl.timeline(tmp_path / "run.json"):
        fl.map_tiles(lambda tile: tile, small, out=tmp_path / "out.zarr")
        tasks = fl.stats().tasks
    (run,) = read_runs(tmp_path / "run.json")
    assert sum(count for count, _ in run.tasks.values()) == tasks
    assert sum(run.spans["store"].nbytes) == fl.stats().bytes_written


def test_copies_and_launches_of_devices_have_rows(operands, tmp_path):
    a, b = operands
    with fl.Runtime(devices=[fl.Device("emulated", memory="64MiB")]), fl.timeline(tmp_path / "run.json"):
        fl.matmul(a, b)
        device = fl.stats().spaces[1]
    found = events(tmp_path / "run.json")
    rows = {event["tid"]: event["args"]["name"] for event in found if event["name"] == "thread_name"}
    spans = [event for event in found if event["ph"] == "X"]
    for name, row, bytes_moved in (
        ("copy in", "emulated:0 in", device.bytes_in),
        ("copy out", "emulated:0 out", device.bytes_out),
    ):
        copies = [event for event in spans if event["name"] == name]
        assert {rows[event["tid"]] for event in copies} == {row}
        assert sum(event["args"]["bytes"] for event in copies) == bytes_moved > 0
    launches = [event for event in spans if event["cat"] == "launch"]
    assert len(launches) == device.launches > 0
    assert all(rows[event["tid"]].startswith("emulated:0 queue ") for event in launches)
