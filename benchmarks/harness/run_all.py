"""Every figure, one after the other, as one table (Markdown). `--smoke` takes a minute or two.

python benchmarks/harness/run_all.py [--smoke] [--data DIR] [--only product,pca]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

HERE = harness.TOP / "benchmarks"
#: Every benchmark and its folder.
SCRIPTS = {
    "product": "dense",
    "product_memmap": "dense",
    "unaligned": "dense",
    "injection_order": "dense",
    "qr": "factor",
    "lstsq": "factor",
    "norms": "dense",
    "rank_k": "factor",
    "emulated": "devices",
    "empty_tasks": "runtime",
    "ring": "storage",
    "storage": "storage",
    "pca": "sparse",
    "sparse_stream": "sparse",
    "kmeans": "learning",
    "labels": "learning",
    "speed": "stencil",
    "topics": "learning",
    "elementwise": "elementwise",
    "layouts": "elementwise",
    "cholesky": "factor",
    "dask_cholesky": "factor",
    "lu": "factor",
    "mixed": "factor",
    "simulated": "factor",
    "gaussian_process": "factor",
    "applications": "spectral",
    "along": "elementwise",
    "lazy": "elementwise",
    "sort": "sort",
    "rechunk": "storage",
    "limits": "runtime",
    "plan": "runtime",
    "plan_seconds": "runtime",
    "timeline": "runtime",
    "packed": "storage",
    "formats": "storage",
    "csv_files": "storage",
    "resume": "storage",
    "peers": "peers",
    "paper": "stencil",
    "kernels": "stencil",
}


def script(name: str) -> Path:
    return HERE / SCRIPTS[name] / f"{name}.py"


def one(name: str, args: argparse.Namespace) -> tuple[list[harness.Row], str]:
    """The rows of one benchmark and how it ended."""
    result = args.data / f"{name}.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, str(script(name)), "--data", str(args.data), "--json", str(result)]
    started = time.perf_counter()
    done = subprocess.run([*command, *(["--smoke"] if args.smoke else [])], stdout=subprocess.DEVNULL)
    ended = f"{name}: exit code {done.returncode} after {time.perf_counter() - started:.0f} s"
    harness.note(ended)
    return (json.loads(result.read_text())["rows"] if result.exists() else []), ended


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="sizes that take seconds; nothing is judged")
    parser.add_argument("--data", type=Path, default=harness.TOP / "out" / "bench", help="for big files")
    parser.add_argument("--only", default=",".join(SCRIPTS), help="names, separated by commas")
    args = parser.parse_args()
    args.data.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for name in args.only.split(","):
        found, ended = one(name, args)
        rows += found
        if not found:
            failed.append(ended)
    about = harness.machine()
    gib = about["memory"] / 2**30
    print(f"{about['processor']}, {about['processors']} processors, {gib:.0f} GiB, Linux {about['kernel']}\n")
    print(harness.table(rows))
    print(*failed, sep="\n")
    return int(bool(failed) or any(row["reached"] == "NO" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
