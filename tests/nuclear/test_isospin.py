"""BIGSTICK's isospin form: the same numbers as KSHELL's, and sentences for what is damaged."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone import nuclear

SPS = "iso\n3\n 0. 2. 1.5 2\n 0. 2. 2.5 2\n 1. 0. 0.5 2\n"


def isospin_of(snt):
    """usdb.snt as isospin elements: T = 1 of like nucleons, T = 0 what mixed pairs have beside."""
    lines = [line.split() for line in snt.read_text().splitlines() if line.strip() and line[0] not in "!#"]
    orbits = {int(o[0]): int(o[3]) for o in lines[1:7]}  # 2j
    energies = [float(v[2]) for v in lines[8:11]]
    at = 7 + 1 + int(lines[7][0])
    like, mixed = {}, {}
    for a, b, c, d, J, value in (line[:6] for line in lines[at + 1 :]):
        abcd, kind = tuple(int(x) for x in (a, b, c, d)), like
        if abcd[0] > 3:
            continue
        if abcd[1] > 3:
            kind, abcd = mixed, (abcd[0], abcd[1] - 3, abcd[2], abcd[3] - 3)
        kind[(*abcd, int(J))] = float(value)
    rows = [(*key, 1, value) for key, value in like.items()]
    for (a, b, c, d, J), value in mixed.items():
        if a > b or c > d:
            continue
        root = np.sqrt((1 + (a == b)) * (1 + (c == d))) / 2
        with_1 = 0.0
        for key, sign in (((a, b, c, d, J), 1), ((c, d, a, b, J), 1)):
            with_1 = like.get(key, with_1) * sign
        zero = value / root - with_1
        if (a == b or c == d) and J % 2 == 0:
            assert abs(zero) < 2e-4
            continue
        rows.append((a, b, c, d, J, 0, zero))
    assert orbits[1] == 3
    return energies, rows


def write(folder, energies, rows, scaling="16. 18. 0.3"):
    (folder / "usdb.sps").write_text(SPS)
    text = f"! USDB\n{len(rows)} " + " ".join(map(str, energies)) + f" {scaling}\n"
    # Exchanged orbits and sides: the reader has to put signs right.
    two_j = (3, 5, 1)
    for a, b, c, d, J, T, value in rows:
        sign = 1
        if a != b:
            sign = (-1) ** ((two_j[a - 1] + two_j[b - 1]) // 2 + J + T)
            a, b = b, a
        text += f"{c} {d} {a} {b} {J} {T} {sign * value:.12f}\n"
    (folder / "usdb.int").write_text(text)
    return folder / "usdb.int"


def test_the_same_hamiltonian(shared_data, tmp_path):
    snt = shared_data / "nuclear" / "usdb.snt"
    place = write(tmp_path, *isospin_of(snt))
    for protons, neutrons, two_m in ((0, 2, 0), (1, 2, 1)):
        one, other = (
            nuclear.Space(protons, neutrons, None, nuclear.Interaction.read(p)).hamiltonian(two_m).to_scipy()
            for p in (snt, place)
        )
        assert abs(one - other).max() < 2e-4  # digits of the file
    unscaled = write(tmp_path, *isospin_of(snt), scaling="")
    scaled = nuclear.Interaction.read(unscaled, scaling=(16, 18, 0.3))
    again = nuclear.Space(1, 2, None, scaled).hamiltonian(1).to_scipy()
    assert abs(again - other).max() == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda t: t.replace("! USDB\n63", "! USDB\n64"), "needed; the file is damaged or no isospin"),
        (lambda t: t + "1 1 1 1 0 1 -1.5\n", "stands behind the"),
        (lambda t: t.replace(" 0.3\n", "\n", 1), "stand 2 numbers; none, or three"),
        (lambda t: t.replace("16. 18.", "16. -18."), "scaling needs a mass above 0"),
        (lambda t: t.replace("\n", "\n1 1 1 1 1 1 0.5\n", 2).replace("\n1 1", "\nx", 1), "is needed"),
        (lambda t: "no numbers\n" + t, "is needed"),
    ],
)
def test_damaged_files(shared_data, tmp_path, wrong, said):
    place = write(tmp_path, *isospin_of(shared_data / "nuclear" / "usdb.snt"))
    place.write_text(wrong(place.read_text()))
    with pytest.raises(fl.FormatError, match=said):
        nuclear.Interaction.read(place)


def test_elements_that_cannot_be(tmp_path):
    (tmp_path / "a.sps").write_text(SPS)
    for line, said in (
        ("1 1 1 1 0 0 1.0", r"J \+ T odd"),
        ("1 2 1 2 5 1 1.0", "breaks J or parity"),
        ("1 4 1 2 1 1 1.0", "an orbit is 4"),
        ("1 2 1 2 1 2 1.0", "T is 2"),
        ("1 2 1 2 1 1 nan", "is needed|not finite"),
    ):
        (tmp_path / "a.int").write_text(f"1 0 0 0\n{line}\n")
        with pytest.raises(fl.FormatError, match=said):
            nuclear.Interaction.read(tmp_path / "a.int")
    (tmp_path / "a.int").write_text("2 0 0 0\n1 2 1 2 1 1 1.0\n2 1 1 2 1 1 -1.0\n")
    with pytest.raises(fl.FormatError, match="given before"):
        nuclear.Interaction.read(tmp_path / "a.int")
    (tmp_path / "a.sps").write_text("pn\n")
    with pytest.raises(fl.FormatError, match="of kind 'pn'"):
        nuclear.Interaction.read(tmp_path / "a.int")
    (tmp_path / "a.sps").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.sps' is not there; give orbits="):
        nuclear.Interaction.read(tmp_path / "a.int")
    with pytest.raises(fl.FormatError, match="does not end in .snt or .int"):
        nuclear.Interaction.read(tmp_path / "a.txt")
    (tmp_path / "a.snt").write_text("")
    with pytest.raises(fl.ShapeError, match="orbits and scaling of its own"):
        nuclear.Interaction.read(tmp_path / "a.snt", scaling=(1, 1, 1))
