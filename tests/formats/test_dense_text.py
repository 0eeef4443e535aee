"""Dense matrices as MatrixMarket text: the same bytes from every layout and limit, the source read once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from flagstone._formats.text import columns
from tests.support.processes import output_of


def wanted_text(values: np.ndarray) -> bytes:
    field = {"c": "complex", "f": "real"}.get(values.dtype.kind, "integer")
    numbers = values.astype({"complex": "c16", "real": "f8", "integer": "i8"}[field]).T.reshape(-1)
    if field == "complex":
        lines = [f"{number(z.real)} {number(z.imag)}" for z in numbers]
    else:
        lines = [number(x) if field == "real" else str(x) for x in numbers]
    header = f"%%MatrixMarket matrix array {field} general\n{values.shape[0]} {values.shape[1]}\n"
    return (header + "".join(line + "\n" for line in lines)).encode()


def number(x: float) -> str:
    """The shortest text that is read back as this number; of two as short that without an exponent."""
    mantissa, exponent = f"{x:.17e}".split("e") if x == 0 else np.format_float_scientific(
        x, unique=True, trim="-", exp_digits=2
    ).split("e")  # fmt: skip
    scientific = f"{mantissa}e{exponent}" if x else "0"
    plain = np.format_float_positional(x, unique=True, trim="-") if x else "0"
    return plain if len(plain) <= len(scientific) else scientific


def numbers_of(path: Path) -> list[str]:
    return path.read_text().split("\n", 2)[2].split()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c8", "bool"])
@pytest.mark.parametrize("shape", [(300, 20), (1, 7), (7, 1), (0, 4), (3, 0), (70001, 3), (3, 70001)])
def test_every_layout_gives_the_same_text(tmp_path, dtype, shape):
    if np.prod(shape) > 10_000 and dtype not in ("f4", "i2"):
        pytest.skip("long ones of two dtypes")
    rng = np.random.default_rng(3)
    values = (100 * rng.standard_normal(shape)).astype("f8")
    values = (values + 1j * values[::-1]).astype(dtype) if dtype == "c8" else values.astype(dtype)
    np.save(tmp_path / "c.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    chunks = [max(1, min(extent, 64)) for extent in shape]
    sources = [fl.open(tmp_path / "c.npy"), fl.open(tmp_path / "f.npy")]
    for codec in ("raw", "zstd:1"):
        sources.append(fl.create(tmp_path / f"{codec[:4]}.zarr", shape, dtype, chunks, codec=codec))
        sources[-1][...] = values
    texts = set()
    for source in sources:
        fl.convert(source, tmp_path / "a.mtx", overwrite=True)
        texts.add((tmp_path / "a.mtx").read_bytes())
    assert len(texts) == 1
    fl.convert(fl.from_numpy(values.T), tmp_path / "t.mtx")
    fl.convert(sources[0].T, tmp_path / "a.mtx", overwrite=True)
    assert (tmp_path / "a.mtx").read_bytes() == (tmp_path / "t.mtx").read_bytes()
    if np.prod(shape) < 10_000:
        assert texts == {wanted_text(values)}
    else:
        read = np.asarray(fl.open(tmp_path / "t.mtx")).astype(dtype)
        np.testing.assert_array_equal(read, values.T)


def through_scratch(folder: str) -> list[bool]:
    """Runs in a process of its own: whether a high and a low limit went through a copy in scratch."""
    copies, copy = [], columns._transposed
    columns._transposed = lambda *given: copies.append(copy(*given)) or copies[-1]
    source = fl.open(f"{folder}/c.npy")
    fl.convert(source, f"{folder}/a.mtx", memory="1GiB")
    roomy = [done is not None for done in copies]
    _core.release_pages()
    fl.convert(source, f"{folder}/b.mtx", memory=_core.resident_bytes() + (56 << 20))
    assert fl.stats().what.startswith("convert")
    return [bool(roomy), *(done is not None for done in copies)]


def test_a_low_limit_goes_through_scratch_and_gives_the_same_text(tmp_path):
    values = np.random.default_rng(4).integers(0, 100, (3000, 3500)).astype("f8")  # 80 MiB
    np.save(tmp_path / "c.npy", values)
    assert json.loads(output_of(__file__, str(tmp_path), folder=tmp_path)) == [False, True]
    assert (tmp_path / "a.mtx").read_bytes() == (tmp_path / "b.mtx").read_bytes()
    assert numbers_of(tmp_path / "a.mtx")[:3000] == [str(int(x)) for x in values[:, 0]]


def test_panels_shrink_where_the_process_has_grown(tmp_path, monkeypatch):
    values = np.random.default_rng(4).integers(0, 100, (300, 50)).astype("f8")
    widths, read = [], columns.take

    def grown(source, call, key):
        widths.append(min(key[1].stop, 50) - key[1].start)
        if widths[-1] > 7:
            raise fl.BudgetError("no room", 1)
        return read(source, call, key)

    monkeypatch.setattr(columns, "take", grown)
    fl.convert(fl.from_numpy(values), tmp_path / "a.mtx")
    assert widths == [50, 25, 13, *[7] * 7, 1]
    assert (tmp_path / "a.mtx").read_bytes() == wanted_text(values)


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_file_is_read_once(tmp_path, order):
    values = np.random.default_rng(5).integers(0, 9, (2000, 1500)).astype("f4")
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))
    source = fl.open(tmp_path / "a.npy")
    before = bytes_read()
    fl.convert(source, tmp_path / "a.mtx")
    assert bytes_read() - before <= 1.1 * values.nbytes


if __name__ == "__main__":
    print(json.dumps(through_scratch(sys.argv[1])))


@pytest.mark.parametrize("beside", [24, 45])
def test_planning_a_copy_of_a_tall_matrix_keeps_the_limit(isolated, beside):
    """Each row of a flat file is a run of its own in the plan of a column: 100 MB for 200,000 rows."""
    over = isolated(
        """
        from tests.support.processes import peak_memory, reset_peak
        np.save("tall.npy", np.ones((200_000, 24), "float32"))
        np.save("few.npy", np.ones((2000, 24), "float32"))
        fl.convert("few.npy", "few.mtx")  # once: code is there
        fl._core.release_pages()
        fl._core.trim()
        limit = fl._core.resident_bytes() + (beside << 20)
        reset_peak()
        fl.convert("tall.npy", "tall.mtx", memory=limit)
        result = peak_memory() - limit
        """,
        beside=beside,
    )
    assert over <= 0, f"{over / 2**20:.1f} MiB over the limit"
