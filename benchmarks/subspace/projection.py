"""Projections of 6Li's random ensemble: sizes, bytes read of Z, peak and limit.

Counts are those of table 1 of Aktulga et al. (Euro-Par 2012). Default Nmax 6, J = 2: some twenty seconds;
`--nmax 8 --memory 256MiB` takes minutes and 5 GB of scratch.
"""

from __future__ import annotations

import argparse
import json
import time

import flagstone as fl
from flagstone import nuclear, subspace

TABLE = ((12, 0), (12, 1), (12, 2), (12, 3), (12, 4), (14, 3))


def counts() -> dict:
    start = time.perf_counter()
    rows = [{"nmax": nmax, "J": J, **nuclear.Space(3, 3, nmax).counts(J)._asdict()} for nmax, J in TABLE]
    return {"rows": rows, "seconds": time.perf_counter() - start}


def projected(nmax: int, J: str, memory: str, order: str, panel: str | None, dedup: bool) -> dict:
    space = nuclear.Space(3, 3, nmax, nuclear.Interaction.random(1))
    with fl.Runtime(memory=memory):
        start = time.perf_counter()
        Z = nuclear.basis_of_j(space, J, dedup=dedup)
        made = time.perf_counter() - start
        H = subspace.project(space, Z, order=order, panel=panel)
        done = fl.stats()
    return {
        "shape": H.shape,
        "z_bytes": Z.nbytes,
        "seconds_of_z": made,
        "seconds": done.seconds,
        "read_of_z": done.bytes_read / Z.nbytes,
        "written": done.bytes_written,
        "peak_of_limit": done.peak_memory / done.memory,
        "what_was_made": done.note,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nmax", type=int, default=6)
    parser.add_argument("-J", default="2")
    parser.add_argument("--memory", default="160MiB")
    parser.add_argument("--order", default="panels")
    parser.add_argument("--panel")
    parser.add_argument("--dedup", action="store_true")
    parser.add_argument("--counts", action="store_true", help="table 1 alone")
    given = parser.parse_args()
    if given.counts:
        print(json.dumps(counts(), indent=1))
        return
    told = projected(given.nmax, given.J, given.memory, given.order, given.panel, given.dedup)
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
