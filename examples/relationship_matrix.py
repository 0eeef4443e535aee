"""Genomic prediction (GBLUP) from int8 genotypes: a relationship matrix without a converted copy."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl
from flagstone.estimators import GaussianProcessRegressor

ANIMALS, MARKERS, MISSING = 1_200, 20_000, -1

rng = np.random.default_rng(0)
frequency = rng.uniform(0.1, 0.9, MARKERS)
effects = rng.standard_normal(MARKERS)
parents = rng.binomial(2, frequency, (60, MARKERS))

with tempfile.TemporaryDirectory(dir=".") as name:
    genotypes = fl.create(Path(name) / "genotypes.zarr", (ANIMALS, MARKERS), "int8")
    value = np.empty(ANIMALS)
    for i in range(0, ANIMALS, 200):  # 0, 1 or 2 copies of an allele; some were not read
        pairs = parents[rng.integers(0, 60, (200, 2))]
        copies = rng.binomial(1, pairs / 2).sum(1).astype(np.int8)
        value[i : i + 200] = (copies - 2 * frequency) @ effects
        genotypes[i : i + 200] = np.where(rng.random(copies.shape) < 0.02, MISSING, copies)
    genotypes.flush()

    # Means and deviations of what was read, in one pass over bytes; VanRaden's second G = Z Zᵀ / p.
    seen = genotypes != MISSING
    number, total, squares = fl.compute(
        seen.sum(0),
        fl.where(seen, genotypes, np.int8(0)).sum(0),
        (fl.where(seen, genotypes, np.int8(0)).astype("float32") ** 2).sum(0),
    )
    mean = total / number
    deviation = np.sqrt(squares / number - mean**2)
    G = fl.linalg.rank_k_update(
        genotypes, center=mean, scale=deviation, missing=MISSING, alpha=1 / MARKERS, uplo="lower",
        out=Path(name) / "relationship.zarr", memory="400MiB",
    )  # fmt: skip
    print(fl.stats())
    relationship = fl.symmetric(G)

    # Phenotypes of heritability one half; the last 200 animals are predicted from the others.
    phenotype = value / value.std() + rng.standard_normal(ANIMALS)
    known, new = slice(0, ANIMALS - 200), slice(ANIMALS - 200, ANIMALS)
    model = GaussianProcessRegressor("precomputed", alpha=1.0, mean="constant", memory="400MiB")
    model.fit(relationship[known, known], phenotype[known])
    predicted = model.predict(relationship[new, known])
    accuracy = np.corrcoef(predicted, value[new])[0, 1]

    z = np.where(genotypes[:50] == MISSING, 0, (genotypes[:50] - mean) / deviation)
    assert np.allclose(np.asarray(relationship[:50, :50]), z @ z.T / MARKERS, atol=1e-4)
    print(f"accuracy of breeding values that were never seen: {accuracy:.2f}")
