"""H row by row through a hash of determinants: the slow oracle of what is made by pairs of groups."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from math import factorial, sqrt
from typing import Any

import numpy as np

State = tuple[bool, int, int]  # neutron, orbit, number of m


def clebsch(j1: int, m1: int, j2: int, m2: int, J: int) -> float:
    """<j1 m1 j2 m2|J M>, doubled arguments, by Racah's sum over integers."""
    M = m1 + m2
    if abs(M) > J or not abs(j1 - j2) <= J <= j1 + j2:
        return 0.0

    def f(doubled: int) -> int:
        return factorial(doubled // 2)

    total = 0.0
    for k in range((j1 + j2 - J) // 2 + 1):
        parts = [
            j1 + j2 - J - 2 * k,
            j1 - m1 - 2 * k,
            j2 + m2 - 2 * k,
            J - j2 + m1 + 2 * k,
            J - j1 - m2 + 2 * k,
        ]
        if min(parts) < 0:
            continue
        below = factorial(k)
        for part in parts:
            below *= f(part)
        total += (-1) ** k / below
    above = f(j1 + j2 - J) * f(j1 - j2 + J) * f(-j1 + j2 + J) / f(j1 + j2 + J + 2) * (J + 1)
    return total * sqrt(above) * sqrt(f(j1 + m1) * f(j1 - m1) * f(j2 + m2) * f(j2 - m2) * f(J + M) * f(J - M))


class RowByRow:
    """H of a space on the rows of one M, from coupled elements alone."""

    def __init__(self, space: Any, two_m: int) -> None:
        self.space, self.core = space, space.interaction.core
        basis = space.basis(two_m)
        self.scale = self.core.scale(space.nucleons)
        self.rows = [tuple(sorted(row)) for g in range(basis.groups) for row in basis.states(g)]
        self.place = {row: number for number, row in enumerate(self.rows)}
        self.known: dict[Any, float] = {}
        self.targets: dict[tuple[bool, bool, int], list[tuple[State, State]]] = defaultdict(list)
        states = [
            (neutron, o, i)
            for neutron in (False, True)
            for o, (_, _, two_j) in enumerate(space.orbits[neutron])
            for i in range(two_j + 1)
        ]
        for a, b in combinations(states, 2):
            self.targets[(a[0], b[0], self.m(a) + self.m(b))].append((a, b))

    def orbit(self, s: State) -> tuple[int, int, int]:
        return self.space.orbits[s[0]][s[1]]

    def m(self, s: State) -> int:
        return 2 * s[2] - self.orbit(s)[2]

    def element(self, a: State, b: State, c: State, d: State) -> float:
        key = (a, b, c, d)
        if key not in self.known:
            kind = 2 if a[0] != b[0] else int(a[0])
            first, values = self.core.two_body(kind, [self.orbit(s) for s in key])
            ja, jb, jc, jd = (self.orbit(s)[2] for s in key)
            total = sum(
                clebsch(ja, self.m(a), jb, self.m(b), first + 2 * k)
                * clebsch(jc, self.m(c), jd, self.m(d), first + 2 * k)
                * value
                for k, value in enumerate(values)
            )
            root = 1.0
            if kind < 2:
                root = sqrt((1 + (a[1] == b[1])) * (1 + (c[1] == d[1])))
            self.known[key] = total * root * self.scale
        return self.known[key]

    def dense(self) -> np.ndarray:
        made = np.zeros((len(self.rows),) * 2)
        for number, row in enumerate(self.rows):
            for state in row:
                orbit = self.orbit(state)
                made[number, number] += self.core.one_body(state[0], orbit, orbit)
            for (x, a), (y, b) in combinations(enumerate(row), 2):
                rest = row[:x] + row[x + 1 : y] + row[y + 1 :]
                for c, d in self.targets[(a[0], b[0], self.m(a) + self.m(b))]:
                    if c in rest or d in rest:
                        continue
                    after = tuple(sorted((*rest, c, d)))
                    other = self.place.get(after)
                    if other is not None:
                        sign = (-1) ** (x + y - 1 + sum(s < c for s in rest) + sum(s < d for s in rest))
                        made[number, other] += sign * self.element(a, b, c, d)
        return made
