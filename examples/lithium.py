"""⁶Li with a real interaction: energies of each J, next to published ones.

    python examples/lithium.py li6_daejeon16_hw15_acm40_nmax2.snt

The file is KSHELL's form of T_intr + Daejeon16 + Coulomb + 40 N_cm (ħω = 15 MeV). Without one a random
interaction that conserves J stands for it, and each J has energies of its own.
"""

from __future__ import annotations

import sys

import flagstone as fl

#: MeV, MFDn 15, Nmax 2, as published with Daejeon16 (A. M. Shirokov et al., Phys. Lett. B 761, 87, 2016).
PUBLISHED = {
    0: (-22.68902, -8.47010, 0.73887),
    1: (-25.57766, -17.04194, -12.71218),
    2: (-19.98330, -18.97546, -14.35415),
    3: (-24.14824, -1.07853),
}


def main() -> None:
    real = len(sys.argv) > 1
    interaction = fl.nuclear.Interaction.read(sys.argv[1]) if real else fl.nuclear.Interaction.random(7)
    space = fl.nuclear.Space(3, 3, nmax=2, interaction=interaction)
    for J, published in PUBLISHED.items():
        Z = fl.nuclear.basis_of_j(space, J, dtype="float64")
        H = fl.subspace.project(space, Z)
        assert H.shape[0] == space.counts(J).columns
        found = H.eigvalsh(len(published))
        print(f"J = {J}: {H}")
        for value, known in zip(found, published, strict=True):
            print(f"  {value:12.5f} MeV" + (f", published {known:12.5f}" if real else ""))
            assert not real or abs(value - known) < 1.1e-5


if __name__ == "__main__":
    main()
