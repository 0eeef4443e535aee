"""The C++ blocks of the pages compile, each as the body of a function, with the headers that users have."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

#: What the blocks under a heading take for granted: declarations before the function, then its parameters.
GIVEN = {
    "Arrays on disk": ("", "std::string path"),
    "I have a C++ program": ("", ""),
    "Boxes, inside the limit": ("", "Array A, Array B, double* mine"),
    "Arrays written anew": ("", "Runtime& runtime, Array A, Array C, Index rows"),
    "Sorts by a comparison of your own": ("", "Runtime& runtime, Index n, double* keys, float* values"),
    "Eigenpairs of an operator of your own": ("", "Runtime& runtime, Index n, Index k"),
    "Expressions in one pass": ("", "Runtime& runtime, Array A, Array B, Array weights, Array C, Array D"),
    "A task of your own": ("", "Array X, Index n"),
    "A function of every element, and a fold": (
        """struct Range { float least = 0, most = 0; };
           Range fold(Range so_far, float x); Range merge(Range a, Range b);""",
        "Runtime& runtime, flash_ptr<float> X, flash_ptr<float> Y, Index n, Array A, Array B",
    ),
    "Scratch and its quota": ("", "Shape shape, Dtype dtype, Shape tile, std::uint64_t n"),
    "A long program that may be killed": (
        "Array column_means(Graph&, const Array&); TaskSpec centre(Array X, Array means, Array Y, Box tile);",
        "Runtime& runtime, Array X, Shape shape, std::vector<Box> grid",
    ),
    "Plans with the rates of this machine": ("", "Runtime& runtime, std::function<void(Graph&)> builder"),
    "Pointers to elements on disk": (
        "",
        """Runtime& runtime, Index m, Index n, Index k, float alpha, float beta, Index lda, Index ldb,
           Index ldc, flash_ptr<float> B, float* buffer, Index rows, Index row_elements""",
    ),
    "The runtime in one page": (
        '#include "flagstone/algorithms/kernels/dense.hpp"',
        """Graph& graph, Array A, Array B, Array C, Box box_a, Box box_b, Box box_c, Dtype dtype,
           double alpha, double m, double n, double k""",
    ),
}  # fmt: skip

_PRELUDE = """#include <cmath>
#include <flagstone/flagstone.hpp>
using namespace flagstone;
"""


def blocks() -> list[tuple[str, str, int, str]]:
    """Page, heading, line and text of each block."""
    found = []
    for page in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            heading = HEADING.findall(text[: block.start()])[-1]
            line = text.count("\n", 0, block.start(1)) + 1
            found.append((str(page.relative_to(ROOT)), heading, line, block[1]))
    return found


def program(found: list[tuple[str, str, int, str]]) -> str:
    """One source of all blocks, whose lines a compiler calls by page and line."""
    parts = [_PRELUDE]
    for number, (page, heading, line, text) in enumerate(found):
        before, parameters = GIVEN[heading]
        parts.append(f'{before}\nvoid block_{number}({parameters}) {{\n#line {line} "{page}"\n{text}}}\n')
    return "".join(parts)


def compiled(source: Path) -> str:
    """What the compiler has against it."""
    done = subprocess.run(
        ["g++", "-std=c++20", "-fsyntax-only", "-I", str(ROOT / "src"), str(source)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stderr if done.returncode else ""


def test_every_heading_with_cpp_is_known():
    assert {heading for _, heading, _, _ in blocks()} == set(GIVEN)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_blocks_compile(tmp_path):
    source = tmp_path / "pages.cpp"
    source.write_text(program(blocks()))
    assert compiled(source) == ""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_block_that_names_what_is_not_there_is_found(tmp_path):
    page, heading, line, text = blocks()[-1]
    source = tmp_path / "pages.cpp"
    source.write_text(program([(page, heading, line, text + "not_there(X);\n")]))
    assert f"{page}:{line + text.count(chr(10))}" in compiled(source)
