"""Machines that plans are made for: workers, memories, nodes, and how fast disk, kernels and links are."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import _core
from .._errors.classes import Error, FormatError
from .._errors.messages import path_text, storage_error
from . import profile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Machine", "Network", "Sockets", "machine_of"]

#: Keys of a file: where each rate stands, and its name among the planner's.
_RATES = {
    "disk": {
        "read": "read_bytes_per_second",
        "write": "write_bytes_per_second",
        "request_seconds": "request_seconds",
        "request_overhead_seconds": "request_overhead_seconds",
        "mixed_penalty": "mixed_penalty",
        "sync_seconds": "sync_seconds",
    },
    "worker": {
        "flops_float32": "flops_float32",
        "flops_float64": "flops_float64",
        "copy": "memory_bytes_per_second",
        "decode": "decode_bytes_per_second",
    },
}
_PRECISIONS = ("float32", "float64")


@dataclass(frozen=True)
class Sockets:
    """Memories of a node, each with its share of the workers.

    Attributes
    ----------
    number : int
        How many; workers are dealt to them in turn.
    remote : float
        Bytes a second of a worker to another socket's memory; "copy" is its rate to its own.
    placed : bool
        Whether tasks that name a socket are computed by its workers in its memory. Else, as for tasks that
        name none, all buffers lie in the first one's memory, which one thread touched first.
    """

    number: int = 1
    remote: float = 14e9
    placed: bool = True

    @property
    def used(self) -> int:
        """Sockets that a builder may place tasks on."""
        return self.number if self.placed else 0


@dataclass(frozen=True)
class Network:
    """Nodes that are alike but for their disks, and the links between them.

    Attributes
    ----------
    nodes : int
        How many; rank k of a mesh is on node k modulo their number.
    link : float
        Bytes a second of a node, each way.
    latency, barrier : float
        Seconds of a message, and until all nodes know that all have come.
    disks : tuple of (float, float)
        Of each node's disk, times the file's: reads, writes; nodes that are not named have the file's.
    """

    nodes: int = 1
    link: float = 1e10
    latency: float = 2e-6
    barrier: float = 0.0
    disks: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Machine:
    """Nodes, as a machine file describes them: one, unless it names a network.

    Attributes
    ----------
    name : str
        What plans call it.
    workers : int
        Tasks at the same time, a core each.
    memory : int
        The limit of a call that names none, in bytes.
    rates : dict
        As those of `profile.BOUNDS`, of one worker while all are busy, and of the disk.
    kernels : dict
        By "float32" and "float64" and the kernel's name: (most, half_edge), the share of the flop rate that
        tiles of edge b reach, most b / (b + half_edge).
    sockets : Sockets
    network : Network
    """

    name: str
    workers: int
    memory: int
    rates: dict[str, float]
    kernels: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    sockets: Sockets = Sockets()
    network: Network = Network()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Machine:
        """Return the machine of a TOML file; FormatError says what is wrong with it.

        Parameters
        ----------
        path : path
        """
        place = Path(path_text("machine", path))
        try:
            with place.open("rb") as file:
                told = tomllib.load(file)
        except OSError as error:
            raise storage_error(
                f"machine: {place} cannot be read ({error.strerror}); name a machine file.",
                error.errno or 0,
                str(place),
            ) from None
        except UnicodeDecodeError:
            raise FormatError(
                f"machine: {place} is no text; name a machine file (flagstone calibrate --machine)."
            ) from None
        except tomllib.TOMLDecodeError as error:
            raise FormatError(
                f"machine: {place} is no TOML file ({error}); see docs/guide/plans.md."
            ) from None
        return _Reader(str(place)).machine(told)

    @property
    def profile(self) -> profile.Profile:
        """Its rates, as a plan takes those of this machine."""
        kernels = {
            f"kernels_{precision}": {name: _core.KernelRate(*rate) for name, rate in rates.items()}
            for precision, rates in self.kernels.items()
        }
        cluster = _core.ClusterProfile()
        cluster.nodes, cluster.link_bytes_per_second = self.network.nodes, self.network.link
        cluster.message_seconds, cluster.barrier_seconds = self.network.latency, self.network.barrier
        cluster.disks = list(self.network.disks)
        told = kernels | {
            "sockets": self.sockets.number,
            "remote_bytes_per_second": self.sockets.remote,
            "cluster": cluster,
        }
        return _Simulated("simulated", "", {}, self.rates, {"name": self.name, "told": told})

    def as_toml(self) -> str:
        """Return the file that describes it."""
        lines = [
            f'name = "{self.name}"',
            "",
            "[node]",
            f"workers = {self.workers}",
            f"memory = {self.memory}",
        ]
        for table, names in _RATES.items():
            lines += ["", f"[{table}]", *(f"{key} = {self.rates[name]:.6g}" for key, name in names.items())]
        for precision, rates in self.kernels.items():
            lines += ["", f"[kernels.{precision}]"]
            lines += [f"{name} = {{ most = {a:.4g}, half_edge = {b:.4g} }}" for name, (a, b) in rates.items()]
        for table, told, usual in (
            ("sockets", self.sockets, Sockets()), ("network", self.network, Network())
        ):  # fmt: skip
            if told != usual:
                lines += ["", f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in vars(told).items())]
        return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str([list(pair) for pair in value]) if isinstance(value, tuple) else f"{value:.6g}"


class _Simulated(profile.Profile):
    """Rates of a machine that is described: no run corrects them."""

    @property
    def core(self) -> _core.MachineProfile:
        result = super().core
        for name, value in self.found["told"].items():
            setattr(result, name, value)
        return result

    @property
    def label(self) -> str:
        return f"simulated: {self.found['name']}"


class _Reader:
    """Checks what a file says, and names what is wrong."""

    def __init__(self, path: str) -> None:
        self.path = path

    def machine(self, told: dict[str, Any]) -> Machine:
        self._only(told, ["name", "node", *_RATES, "kernels", "sockets", "network"], "")
        node = self._table(told, "node")
        self._only(node, ["workers", "memory"], "node.")
        return Machine(
            str(told.get("name", Path(self.path).stem)),
            self._whole(node, "workers"),
            self._memory(node),
            self._rates(told),
            {p: self._kernels(self._table(told, "kernels"), p) for p in _PRECISIONS},
            self._sockets(self._table(told, "sockets"), self._whole(node, "workers")),
            self._network(self._table(told, "network")),
        )

    def _sockets(self, told: dict[str, Any], workers: int) -> Sockets:
        self._only(told, ["number", "remote", "placed"], "sockets.")
        number = self._whole(told, "number", "sockets", 1)
        if workers % number:
            raise self._wrong(f"sockets.number is {number} and node.workers {workers}; a multiple is needed")
        placed = told.get("placed", True)
        if not isinstance(placed, bool):
            raise self._wrong(f"sockets.placed is {placed!r}; true or false is needed")
        remote = self._number("sockets.remote", told.get("remote", 14e9), 1e6, 1e13)
        return Sockets(number, remote, placed)

    def _network(self, told: dict[str, Any]) -> Network:
        self._only(told, ["nodes", "link", "latency", "barrier", "disks"], "network.")
        return Network(
            self._whole(told, "nodes", "network", 1),
            self._number("network.link", told.get("link", 1e10), 1e3, 1e13),
            self._number("network.latency", told.get("latency", 2e-6), 0, 1),
            self._number("network.barrier", told.get("barrier", 0), 0, 1e4),
            self._disks(told.get("disks", [])),
        )

    def _disks(self, told: Any) -> tuple[tuple[float, float], ...]:
        where = "network.disks"
        if not isinstance(told, list) or not all(isinstance(one, list) and len(one) == 2 for one in told):
            raise self._wrong(f"{where} is {told!r}; pairs as [[1, 1], [0.5, 0.25]] are needed")
        return tuple((self._number(where, r, 1e-4, 1e4), self._number(where, w, 1e-4, 1e4)) for r, w in told)

    def _wrong(self, what: str) -> FormatError:
        return FormatError(f"machine: {self.path}: {what} (docs/guide/plans.md shows a file).")

    def _table(self, told: dict[str, Any], name: str) -> dict[str, Any]:
        table = told.get(name, {})
        if not isinstance(table, dict):
            raise self._wrong(f"{name} is {table!r}; a table is needed")
        return table

    def _only(self, told: dict[str, Any], known: list[str], where: str) -> None:
        if unknown := [key for key in told if key not in known]:
            raise self._wrong(f"{where}{unknown[0]} is unknown; {', '.join(known)} are known")

    def _whole(self, told: dict[str, Any], key: str, table: str = "node", usual: int | None = None) -> int:
        value = told.get(key, usual)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong(f"{table}.{key} is {value!r}; a whole number of at least 1 is needed")
        return value

    def _memory(self, node: dict[str, Any]) -> int:
        if not isinstance(node.get("memory"), str):
            return self._whole(node, "memory")
        try:
            return self._whole({"memory": _core.parse_bytes(node["memory"])}, "memory")
        except Error:
            raise self._wrong(f'node.memory is {node["memory"]!r}; bytes or "64GiB" are needed') from None

    def _rates(self, told: dict[str, Any]) -> dict[str, float]:
        rates = dict(profile.default().rates)
        for table, names in _RATES.items():
            given = self._table(told, table)
            self._only(given, list(names), f"{table}.")
            for key, value in given.items():
                rates[names[key]] = self._number(f"{table}.{key}", value, *profile.BOUNDS[names[key]])
        return rates

    def _number(self, what: str, value: Any, low: float, high: float) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(f"{what} is {value!r}; a number between {low:g} and {high:g} is needed")
        return float(value)

    def _kernels(self, told: dict[str, Any], precision: str) -> dict[str, tuple[float, float]]:
        self._only(told, list(_PRECISIONS), "kernels.")
        rates = {}
        for name, rate in self._table(told, precision).items():
            where = f"kernels.{precision}.{name}"
            if name not in _core.kernel_names():
                raise self._wrong(f"{where}: there is no such kernel")
            if not isinstance(rate, dict):
                raise self._wrong(f"{where} is {rate!r}; {{ most = 0.8, half_edge = 100 }} is needed")
            self._only(rate, ["most", "half_edge"], f"{where}.")
            rates[name] = (
                self._number(f"{where}.most", rate.get("most"), 1e-3, 10),
                self._number(f"{where}.half_edge", rate.get("half_edge", 0), 0, 1e6),
            )
        return rates


def machine_of(given: Any) -> Machine:
    """Return a machine: itself, or the one that a file describes."""
    return given if isinstance(given, Machine) else Machine.read(given)
