"""Plans of machines that a file describes: rates, workers, chains, operands that do not exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone import _core
from flagstone._cli import cli
from flagstone._machine.kernels import two_numbers
from flagstone._machine.machine import Machine
from flagstone._machine.profile import default
from tests.support.processes import beside, output_of

_NODE = """
name = "four"
[node]
workers = 4
memory = "2GiB"
[disk]
read = {disk}
write = {disk}
[worker]
flops_float32 = 1e10
flops_float64 = 1e10
"""


@pytest.fixture
def node(tmp_path: Path):
    """Return what writes a machine file: four workers of 10 GF/s, and a disk."""

    def write(disk: float = 1e11, more: str = "") -> Path:
        place = tmp_path / "node.toml"
        place.write_text(_NODE.format(disk=disk) + more)
        return place

    return write


def _product(n: int = 4096, **options) -> fl.Plan:
    a = fl.planned((n, n), "float32")
    return fl.matmul.plan(a, a, out="never.zarr", **options)


def test_a_product_takes_its_flops_over_the_workers(node):
    plan = _product(machine=node())
    floor = plan.flops / 4e10
    assert floor <= plan.seconds <= 1.15 * floor
    assert plan.bound.startswith("workers")
    assert 0 <= plan.idle_share <= 0.15
    assert "simulated: four" in str(plan)
    assert "idle workers" in str(plan)


def test_a_slow_disk_is_the_bound(node):
    plan = _product(machine=node(disk=2e7))
    floor = (plan.bytes_read + plan.bytes_written) / 2e7
    assert floor <= plan.seconds <= 1.1 * floor
    assert plan.bound.startswith("disk")
    assert plan.idle_share > 0.5


def test_a_kernel_is_as_fast_as_its_file_says(node):
    plain = _product(machine=node())
    slow = _product(machine=node(more="[kernels.float32]\ngemm = { most = 0.5, half_edge = 0 }\n"))
    assert slow.seconds == pytest.approx(2 * plain.seconds, rel=0.05)
    assert slow.flops == plain.flops


def test_a_chain_of_updates_binds_where_there_is_one_tile(node):
    a, b = fl.planned((1024, 65536), "float32"), fl.planned((65536, 1024), "float32")
    plan = fl.matmul.plan(a, b, out="never.zarr", machine=node())
    chain = float(re.findall(r"chain ([\d.]+) s", plan.bound)[0])
    assert chain <= plan.seconds * 1.05
    assert chain >= plan.flops / 4e10 * 0.9


def test_the_limit_is_the_machines_unless_one_is_given(node):
    assert _product(machine=node()).memory == 2 << 30
    tight = _core.resident_bytes() + (100 << 20)
    small = _product(8192, machine=node(), memory=tight)
    assert small.memory == tight
    assert small.bytes_read > _product(8192, machine=node()).bytes_read


def test_what_is_planned_has_no_elements():
    a = fl.planned((100, 100))
    assert a.shape == (100, 100)
    assert a.dtype == np.float64
    for read in (lambda: a[:2], lambda: fl.matmul(a, a), lambda: np.asarray(a), lambda: fl.matmul(a + 1, a)):
        with pytest.raises(fl.Error, match="exists in plans alone"):
            read()


def test_shares_of_kernels_are_two_numbers():
    edges = [100.0, 200.0, 400.0, 800.0]
    most, half = two_numbers([(b, 0.8 * b / (b + 60)) for b in edges])
    assert (most, half) == pytest.approx((0.8, 60))
    assert two_numbers([(b, 0.9) for b in edges]) == pytest.approx((0.9, 0.0))
    assert two_numbers([(b, 0.9 - b / 1e4) for b in edges])[1] == 0  # faster on small tiles: no line


def test_kernels_are_measured():
    for name in _core.rated_kernels():
        for dtype in ("float32", "float64"):
            work = _core.kernel_rate(name, dtype, 64, 1, 0.01)
            assert work.flops > 0
            assert work.rate.elapsed > 1e6
    with pytest.raises(fl.Error, match="not measured"):
        _core.kernel_rate("scan", "float64", 64, 1, 0.01)


def test_a_machine_is_written_and_read_again(tmp_path: Path):
    made = Machine(
        "here", 3, 1 << 30, dict(default().rates), {"float32": {}, "float64": {"gemm": (0.9, 40.0)}}
    )
    place = tmp_path / "here.toml"
    place.write_text(made.as_toml())
    again = Machine.read(place)
    assert (again.workers, again.memory, again.kernels) == (made.workers, made.memory, made.kernels)
    assert again.rates == pytest.approx(made.rates, rel=1e-5)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("nodes = 3", "is no TOML file|nodes is unknown"),
        ("[network]\nlatency = 2", "network.latency is 2"),
        ("[kernels.float64]\ngemn = { most = 1 }", "no such kernel"),
        ("[kernels.float64]\ngemm = 3", "half_edge"),
        ("[kernels.float64]\ngemm = { most = 0 }", "most is 0"),
        ("[kernels.half]\ngemm = { most = 1 }", "half is unknown"),
        ("x = [", "is no TOML file"),
    ],
)
def test_a_wrong_file_is_refused(node, more: str, said: str):
    with pytest.raises(fl.FormatError, match=said):
        _product(machine=node(more=more))


@pytest.mark.parametrize(("key", "value"), [("workers", "0"), ("workers", '"4"'), ("memory", '"much"')])
def test_a_wrong_node_is_refused(tmp_path: Path, key: str, value: str):
    told = {"workers": "4", "memory": '"2GiB"'} | {key: value}
    place = tmp_path / "bad.toml"
    place.write_text("[node]\n" + "\n".join(f"{name} = {text}" for name, text in told.items()))
    with pytest.raises(fl.FormatError, match=f"node.{key}"):
        _product(machine=place)


def test_the_command_line_simulates(node, tmp_path: Path):
    said = output_of(
        "-m",
        "flagstone",
        "simulate",
        "matmul",
        "-n",
        "4096",
        "--dtype",
        "float32",
        "--machine",
        str(node()),
        "--json",
        folder=tmp_path,
    )
    assert json.loads(said)["seconds"] == pytest.approx(_product(machine=node()).seconds)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (["cholesky", "-n", "200", "--cols", "100"], "--cols"),
        (["lu", "-n", "200", "--inner", "100"], "--inner"),
        (["qr", "-n", "200", "--inner", "100"], "--inner"),
        (["matmul", "-n", "200", "--shape", "3x3"], "--shape"),
        (["cholesky", "-n", "200", "--kernel", "wave"], "--kernel"),
        (["lu", "-n", "200", "--method", "sweep"], "--method"),
        (["stencil", "--shape", "64x64", "--steps", "2", "-n", "3"], "-n"),
    ],
)
def test_the_command_line_refuses_what_a_routine_would_not_look_at(node, given, option):
    refused = CliRunner().invoke(cli, ["simulate", *given, "--machine", str(node())])
    assert refused.exit_code == 2
    assert f"{given[0]} takes no {option}; leave it out." in refused.output


def test_a_machine_file_that_is_no_text_is_named(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(fl.FormatError, match=r"machine: .*x.npy is no text; name a machine file"):
        _product(machine=tmp_path / "x.npy")


def test_the_command_line_simulates_time_loops(node):
    """A plan of the named machine, and all methods beside each other; nothing exists."""

    def told(*args):
        made = CliRunner().invoke(cli, ["simulate", "stencil", "--dtype", "float32", *args])
        assert made.exit_code == 0, made.output
        return json.loads(made.output)

    place, limit = str(node(disk=1e9)), beside(1024)  # all of it fits
    size = ("--shape", "128x64x256", "--steps", "6", "--memory", str(limit))
    a = fl.planned((128, 64, 256), "float32")
    heat = {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(3).items()}
    plan = fl.stencil.plan(heat, a, 6, out="never.zarr", machine=place, memory=limit)
    assert told("--machine", place, *size, "--json")["seconds"] == pytest.approx(plan.seconds)
    assert plan.seconds >= plan.bytes_read / 1e9
    slow = told("--machine", str(node(disk=1e7)), *size, "--kernel", "wave", "--compare", "--json")["plans"]
    assert set(slow) == {"al4", "al3", "al2", "al1", "sweep"}
    assert all(one["seconds"] >= one["bytes_read"] / 1e7 for one in slow.values())
    for args in (["stencil"], ["matmul"], ["stencil", "--shape", "3xx", "--steps", "2"]):
        refused = CliRunner().invoke(cli, ["simulate", *args, "--machine", place])
        assert refused.exit_code == 2, args
