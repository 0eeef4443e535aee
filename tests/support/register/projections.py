"""Projections: bases of blocks, H' written, opened and multiplied with."""

from __future__ import annotations

import numpy as np

from flagstone import nuclear, subspace

from .entry import entry


def space() -> nuclear.Space:
    return nuclear.Space(3, 3, 4, nuclear.Interaction.random(1))


def stored(name: str = "h-of-register.zarr") -> subspace.ProjectedMatrix:
    subspace.project(space(), nuclear.basis_of_j(space(), 1), out=name)
    return subspace.open(name)


@entry("a basis of J", "nuclear.basis_of_j", variants=("equal blocks once", "all"))
def basis_of_j(how):
    of = space()
    return lambda: nuclear.basis_of_j(of, 1, dedup=how != "all")


@entry("a basis of blocks", "subspace.basis", "subspace.BlockBasis.block", "subspace.BlockBasis.to_scipy")
def basis():
    blocks = [(60, np.linalg.qr(np.random.default_rng(i).normal(size=(60, 30)))[0]) for i in range(20)]

    def run():
        made = subspace.basis(blocks)
        return made.block(3), made.to_scipy()

    return run


@entry("a projection", "subspace.project", variants=("panels", "columns"))
def projection(order):
    of = space()
    Z = nuclear.basis_of_j(of, 1, dedup=False)
    return lambda: subspace.project(of, Z, order=order)


@entry(
    "products with H'", "subspace.open", "subspace.ProjectedMatrix.{}", variants=("__matmul__", "matmat")
)  # fmt: skip
def products(name):
    made = stored()
    x = np.ones((made.shape[0], 4))
    return lambda: getattr(made, name)(x)


@entry("a small H' in memory", "subspace.ProjectedMatrix.{}", variants=("to_dense", "to_scipy"))
def in_memory(name):
    of = nuclear.Space(3, 3, 2, nuclear.Interaction.random(1))
    made = subspace.project(of, nuclear.basis_of_j(of, 1))
    return lambda: getattr(made, name)()
