"""Plans of time loops on described nodes: sockets, ranks side by side, links, barriers, disks that differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import flagstone as fl
from flagstone._cli import cli
from flagstone._machine.machine import Machine
from tests.stencil.test_mesh import sleeves
from tests.stencil.test_stencil import heat

_SHAPE, _STEPS, _DEPTH = (256, 128, 256), 16, 4

_NODE = """
[node]
workers = 2
memory = "16GiB"
[disk]
read = {disk}
write = {disk}
request_seconds = 1e-7
request_overhead_seconds = 1e-8
[worker]
flops_float32 = {flops}
copy = 1e10
"""


@pytest.fixture
def machine(tmp_path: Path):
    """Return what writes a machine file: two workers and a disk, and what else is said."""

    def write(more: str = "", disk: float = 1e9, flops: float = 1e12) -> Path:
        place = tmp_path / "machine.toml"
        place.write_text(_NODE.format(disk=disk, flops=flops) + more)
        return place

    return write


def _plan(machine: Path, **options) -> fl.Plan:
    a = fl.planned(_SHAPE, "float32")
    given = {"method": "al1", "depth": _DEPTH, "out": "never.zarr"} | options
    return fl.stencil.plan(heat(3), a, _STEPS, machine=machine, **given)


def _loop(plan: fl.Plan) -> float:
    return plan.stencil.components["loop"]


def _nodes(number: int, link: float = 1e12, **more: object) -> str:
    lines = {"nodes": number, "link": link, "latency": 0} | more
    return "[network]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def test_workers_of_sockets_share_the_first_memory_unless_blocks_are_placed(machine):
    """Twelve bytes an update: the first memory serves both workers at half the rate, or one over the link."""
    fast = {"disk": 1e11, "flops": 1e13}
    one = _plan(machine(**fast)).seconds
    two = _plan(machine("[sockets]\nnumber = 2\nremote = 9e9\n", **fast))
    assert two.seconds == pytest.approx(one)
    apart = _plan(machine("[sockets]\nnumber = 2\nremote = 9e9\nplaced = false\n", **fast))
    memory = 12 * two.stencil.updates / 2e10  # of both at their own
    assert apart.seconds - two.seconds == pytest.approx(memory, rel=0.02)
    assert apart.bytes_read == two.bytes_read
    far = _plan(machine("[sockets]\nnumber = 2\nremote = 1e9\nplaced = false\n", **fast))
    assert far.seconds > apart.seconds + memory
    wave = _plan(machine("[sockets]\nnumber = 2\nplaced = false\n", **fast), method="al2")
    assert wave.seconds < 0.8 * apart.seconds  # which reads memory once for several steps


def test_ranks_on_nodes_of_their_own_run_side_by_side(machine):
    alone = _plan(machine(_nodes(1)), mesh=(2, 2))
    four = _plan(machine(_nodes(4)), mesh=(2, 2))
    assert (four.bytes_read, four.bytes_written) == (alone.bytes_read, alone.bytes_written)
    assert four.stencil.sleeve_elements == alone.stencil.sleeve_elements
    assert _loop(four) == pytest.approx(_loop(alone) / 4, rel=0.02)
    two = _plan(machine(_nodes(2)), mesh=(2, 2))  # two ranks a node, one after the other
    assert _loop(two) == pytest.approx(_loop(alone) / 2, rel=0.02)
    assert _loop(four) < four.seconds  # distributed and collected by the first node


def test_sleeves_travel_at_the_links_rate_and_ranks_meet(machine):
    fast = _plan(machine(_nodes(2)), mesh=(2, 1))
    slow = _plan(machine(_nodes(2, 1e7)), mesh=(2, 1))
    each = sleeves(_SHAPE, (2, 1), 1, _DEPTH) * (_STEPS // _DEPTH) * 4 / 2  # bytes that a node receives
    parts, more = slow.stencil.components, fast.stencil.components
    # The copies hide behind messages, and the last one's store does not.
    assert parts["exchange"] - more["exchange"] == pytest.approx(each / 1e7, rel=0.1)
    assert _loop(slow) - _loop(fast) == pytest.approx(parts["exchange"] - more["exchange"], rel=1e-6)
    meets = _plan(machine(_nodes(2, barrier=0.25)), mesh=(2, 1))
    assert _loop(meets) - _loop(fast) == pytest.approx(0.25 * _STEPS / _DEPTH)
    assert meets.stencil.components["barrier"] == pytest.approx(more["barrier"] + 0.25 * _STEPS / _DEPTH)
    late = _plan(machine(_nodes(2, latency=0.1)), mesh=(2, 1))
    assert _loop(late) - _loop(fast) == pytest.approx(0.1 * _STEPS / _DEPTH, rel=0.01)


def test_who_has_the_slow_disk_is_waited_for(machine):
    even = _plan(machine(_nodes(2)), mesh=(2, 1))
    odd = _plan(machine(_nodes(2, disks="[[1, 1], [0.25, 0.25]]")), mesh=(2, 1))
    all_slow = _plan(machine(_nodes(2, disks="[[0.25, 0.25], [0.25, 0.25]]")), mesh=(2, 1))
    assert _loop(odd) == pytest.approx(_loop(all_slow), rel=0.02)
    waits = odd.stencil.components["barrier"]  # of two, one waits for the difference
    assert waits == pytest.approx((_loop(odd) - _loop(even)) / 2, rel=0.1)


def test_the_command_line_has_a_mesh(machine):
    place = machine(_nodes(4))
    told = CliRunner().invoke(
        cli,
        ["simulate", "stencil", "--machine", str(place), "--shape", "256x128x256", "--dtype", "float32",
         "--steps", "16", "--method", "al1", "--depth", "4", "--mesh", "2x2", "--json"],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["seconds"] > 0


def test_nodes_and_sockets_are_written_and_read_again(machine, tmp_path: Path):
    made = Machine.read(
        machine("[sockets]\nnumber = 2\nremote = 5e9\nplaced = false\n" + _nodes(3, disks="[[1, 0.5]]"))
    )
    place = tmp_path / "again.toml"
    place.write_text(made.as_toml())
    again = Machine.read(place)
    assert (again.sockets, again.network) == (made.sockets, made.network)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[sockets]\nnumber = 3", "node.workers 2; a multiple"),
        ("[sockets]\nplaced = 1", "true or false"),
        ("[sockets]\ncores = 2", "sockets.cores is unknown"),
        ("[network]\nnodes = 0", "network.nodes is 0"),
        ("[network]\nlink = -1", "network.link is -1"),
        ("[network]\ndisks = [[1]]", "pairs"),
        ("[network]\ndisks = [[1, 0]]", "network.disks is 0"),
    ],
)
def test_a_wrong_table_is_refused(machine, more: str, said: str):
    with pytest.raises(fl.FormatError, match=said) as refused:
        Machine.read(machine(more))
    assert "docs/guide/plans.md" in str(refused.value)
