"""Updates, crashes, reopened handles and readers in random order, against a model.

    python tests/durability/harness/interleavings.py [--examples N] [--steps N] [--seed N] [--replay FILE]

Writers in two processes assign slices, run transactions that end or are rolled back, grow, shrink, delete,
create and replace arrays. At a step that is drawn (`file_steps.cpp`) they are killed, fail, or stand still
while readers look; readers stand still in the middle of a read while writers commit. Everything that anybody
reads must be a state that was committed between the begin and the end of the read, all of it; after a crash
it is the state before or after the call, for zarr-python too, with nothing damaged, locked or left.

What fails is made short (hypothesis), and printed as a script for `--replay`.
"""

from __future__ import annotations

import argparse
import ast
import errno
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from file_steps import again_with_steps

PEERS = ("zarr-python",)  # of those that are installed: the quick one
FAILURES = ((errno.EIO, 1), (errno.ENOSPC, 1), (errno.EDQUOT, 1 << 40), (errno.EROFS, 1 << 40))
CODECS = ("raw", "raw", "zstd:1", "blosc-lz4")
CHECKSUMS = ("sidecar", "sidecar", "inner", "none")
DTYPES = ("float64", "int16", "complex64")


def machine_of(top: Path, torn: bool, total: dict[str, int]) -> Any:
    """Return hypothesis's machine, whose stores lie in a folder."""
    whos, names = st.integers(0, 1), st.sampled_from("ABC")
    corners = st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 3)), min_size=3, max_size=3
    )
    values = st.integers(0, 9)
    most = {1: 60, 2: 24, 3: 8}  # extents: zarr-python takes its time for every chunk
    shapes = st.integers(1, 3).flatmap(lambda n: st.tuples(*[st.integers(0, most[n])] * n))
    fates = st.one_of(
        st.none(),
        st.tuples(st.just("die"), st.integers(1, 80), st.booleans(), st.integers(0, 30)),
        st.tuples(st.just("stop"), st.integers(1, 80)),
        st.tuples(st.just("fail"), st.integers(1, 80), st.sampled_from(FAILURES)).map(
            lambda f: (*f[:2], *f[2])
        ),
    )
    parts = st.tuples(names, corners, values)
    numbers, failed = itertools.count(), []

    class Interleavings(stateful.RuleBasedStateMachine):
        """Random operations, and what becomes of them."""

        def __init__(self) -> None:
            super().__init__()
            self.store = Store(top / f"store{next(numbers)}.zarr", found_peers, torn)

        def teardown(self) -> None:
            for name, count in self.store.counts.items():
                total[name] = total.get(name, 0) + count
            self.store.close()

        def perform(self, op: Any, who: int, fate: Any) -> None:
            with self._script():
                self.store.perform(op, who, fate)

        @contextlib.contextmanager
        def _script(self) -> Any:
            try:
                yield
            except BaseException as error:
                if not failed:
                    print(f"{error}\nscript = {self.store.script!r}", flush=True)
                failed.append(error)
                note(f"script = {self.store.script!r}")
                raise

        def there(self, name: str) -> str:
            """Return an array that there is."""
            present = sorted(self.store.state)
            return name if name in present else present[ord(name) % len(present)]

        def region(self, name: str, corners: Any) -> tuple[tuple[int, int, int], ...]:
            shape = self.store.state[name].shape
            pairs = [
                (sorted((a % (n + 1), b % (n + 1))), step)
                for (a, b, step), n in zip(corners, shape, strict=False)
            ]
            return tuple((first, last, step) for (first, last), step in pairs)

        def assignment(self, part: Any) -> Any:
            name = self.there(part[0])
            return name, self.region(name, part[1]), part[2]

        @stateful.rule(name=names, shape=shapes, chunk=st.integers(2, 16), dtype=st.sampled_from(DTYPES),
                       codec=st.sampled_from(CODECS), checksum=st.sampled_from(CHECKSUMS),
                       who=whos, fate=fates)  # fmt: skip
        def create(self, name: str, shape: Any, chunk: int, dtype: str, codec: str, checksum: str, who: int,
                   fate: Any) -> None:  # fmt: skip
            if name in self.store.state:
                return
            self.perform(("create", name, shape, (chunk,) * len(shape), dtype, codec, checksum), who, fate)

        @stateful.rule(
            name=names, shape=shapes, dtype=st.sampled_from(DTYPES), value=values, who=whos, fate=fates
        )
        def replace(self, name: str, shape: Any, dtype: str, value: int, who: int, fate: Any) -> None:
            self.perform(("replace", name, shape, dtype, value), who, fate)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(part=parts, who=whos, fate=fates)
        def assign(self, part: Any, who: int, fate: Any) -> None:
            self.perform(("assign", *self.assignment(part)), who, fate)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(
            parts=st.lists(parts, min_size=1, max_size=5), kept=st.booleans(), who=whos, fate=fates
        )
        def transaction(self, parts: Any, kept: bool, who: int, fate: Any) -> None:
            self.perform(("block", tuple(self.assignment(part) for part in parts), kept), who, fate)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(name=names, extents=st.tuples(*[st.integers(0, 60)] * 3), who=whos, fate=fates)
        def resize(self, name: str, extents: Any, who: int, fate: Any) -> None:
            name = self.there(name)
            ndim = self.store.state[name].ndim
            self.perform(("resize", name, tuple(n % (most[ndim] + 1) for n in extents[:ndim])), who, fate)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(name=names, who=whos, fate=fates)
        def delete(self, name: str, who: int, fate: Any) -> None:
            self.perform(("delete", self.there(name)), who, fate)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(name=names, who=whos)
        def flush(self, name: str, who: int) -> None:
            self.perform(("flush", self.there(name)), who, None)

        @stateful.rule(who=whos, fate=fates)
        def repair(self, who: int, fate: Any) -> None:
            self.perform(("repair",), who, fate)

        @stateful.rule(who=whos)
        def reopen(self, who: int) -> None:
            self.store.reopen(who)

        @stateful.rule(kept=st.booleans())
        def look(self, kept: bool) -> None:
            with self._script():
                self.store.look(kept)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(
            name=names,
            kept=st.booleans(),
            step=st.integers(1, 30),
            parts=st.lists(parts, max_size=3),
            who=whos,
        )
        def read_across(self, name: str, kept: bool, step: int, parts: Any, who: int) -> None:
            ops = [(("assign", *self.assignment(part)), who) for part in parts]
            with self._script():
                self.store.read_across(self.there(name), kept, step, ops)

        @stateful.precondition(lambda self: self.store.state)
        @stateful.rule(kept=st.booleans(), parts=st.lists(st.lists(parts, max_size=3), max_size=4), who=whos)
        def read_beside(self, kept: bool, parts: Any, who: int) -> None:
            ops = [(("block", tuple(map(self.assignment, some)), True), who) for some in parts]
            with self._script():
                self.store.read_beside(kept, ops)

    return Interleavings


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=400)
    parser.add_argument("--steps", type=int, default=50, help="of each example, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torn", action="store_true", help="transactions are none: that must be found")
    parser.add_argument("--as-found", action="store_true", help="what fails is not made shorter")
    parser.add_argument("--replay", type=Path, help="a file with a script that was printed")
    parser.add_argument("--data", type=Path, help="folder to work in (a temporary one)")
    parser.add_argument("--json", type=Path, help="where the counts go")
    options = parser.parse_args()
    begun, total = time.perf_counter(), {}
    with tempfile.TemporaryDirectory(prefix="interleavings-", dir=options.data) as folder:
        if options.replay:
            script = ast.literal_eval(options.replay.read_text().removeprefix("script = "))
            with store_at(Path(folder) / "store.zarr", found_peers, options.torn) as store:
                replay(store, script)
            return 0
        machine = machine_of(Path(folder), options.torn, total)
        phases = [phase for phase in Phase if not (options.as_found and phase == Phase.shrink)]
        every = settings(
            phases=phases,
            max_examples=options.examples,
            stateful_step_count=options.steps,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(options.seed)(stateful.run_state_machine_as_test)(machine, settings=every)
        finally:
            total["seconds"] = round(time.perf_counter() - begun, 1)
            print(json.dumps(total))
            if options.json:
                options.json.write_text(json.dumps(total))
    return 0


if __name__ == "__main__":
    again_with_steps()
    import contextlib

    from hypothesis import HealthCheck, Phase, note, seed, settings, stateful
    from hypothesis import strategies as st
    from interleaved import Store, replay, store_at
    from stored import peers

    found_peers = {name: peer for name, peer in peers().items() if name in PEERS}
    sys.exit(main())
