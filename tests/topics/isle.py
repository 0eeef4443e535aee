"""ISLE, a step at a time, in NumPy and float64: each from the given outcome of the step before."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp


def planted(documents=1500, words=120, k=6, length=400, seed=0, alpha=0.1):
    """Documents of known topics: few words and long documents, so that thresholds exceed 1."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(words, 0.05), size=k)
    weights = rng.dirichlet(np.full(k, alpha), size=documents)
    counts = np.array([rng.multinomial(length, p / p.sum()) for p in weights @ topics])
    return sp.csr_matrix(counts.astype("f4")), topics


def frequencies(x):
    """A: counts of documents that are as long as all are in the mean."""
    c = x.toarray().astype(float)
    lengths = c.sum(axis=1)
    average = lengths[lengths > 0].sum() / (lengths > 0).sum()
    return np.where(lengths[:, None] > 0, c * average / np.where(lengths > 0, lengths, 1)[:, None], 0)


def thresholds(a, k, eps1=1 / 60, w0=1.0):
    """ζ of each word, by the definition: a sorted list of its frequencies."""
    documents = int((a.sum(axis=1) > 0).sum())
    rank = max(1, math.floor(w0 * documents / (2 * k)))
    equal = max(1, math.ceil(3 * eps1 * w0 * documents / k))
    made = []
    for column in np.floor(a + 0.5).T:
        f = np.sort(column[column >= 1])[::-1]
        if len(f) < rank:
            made.append(1.0)
            continue
        z = f[rank - 1]
        while (f == z).sum() >= equal:
            if z == 1 or z == f[-1]:
                z = 1.0
                break
            z = f[f < z][0]
        made.append(z)
    return np.array(made)


def thresholded(a, zeta):
    """B."""
    return np.where(np.floor(a + 0.5) >= zeta, np.sqrt(zeta), 0)


def catchwords(a, labels, k, eps2=1 / 3, rho=1.1, share=1.0, documents=None):
    """Of each word the topic that it is a catchword of, or -1."""
    documents = int((a.sum(axis=1) > 0).sum())
    rank = max(1, math.floor(eps2 * 1.0 * share * documents / (2 * k)))
    g = np.zeros((a.shape[1], k))
    for t in range(k):
        own = a[labels == t]
        for w in range(a.shape[1]):
            some = np.sort(own[:, w][own[:, w] > 0])[::-1]
            if len(some) > rank:
                g[w, t] = some[rank - 1]
            elif rank >= len(own) and len(some) == len(own) and len(some):
                g[w, t] = some.min()
    made = np.full(len(g), -1)
    for w, row in enumerate(g):
        t = int(row.argmax())
        if all(row[t] > rho * row[u] for u in range(k) if u != t) and row[t] > 0:
            made[w] = t
    return made


def means(a, labels, catch, k, eps3=1.0, cluster_documents=False):
    """Topic vectors, and how many documents each pair of topics has."""
    documents = int((a.sum(axis=1) > 0).sum())
    rank = max(1, math.floor(eps3 * documents / (2 * k)))
    # In the order of words: sums that tie in one order may not tie in another.
    s = np.stack([np.where(catch == t, a, 0).cumsum(axis=1)[:, -1] for t in range(k)], axis=1)
    made = []
    for t in range(k):
        some = np.sort(s[:, t][s[:, t] > 0])[::-1]
        least = some[rank - 1] if len(some) >= rank else 0
        m = a[s[:, t] > least].sum(axis=0)
        if cluster_documents or not (catch == t).any():
            m = m + a[labels == t].sum(axis=0)
        made.append(m / m.sum() if m.sum() > 0 else np.full(len(m), 1 / len(m)))
    pairs = np.zeros((k, k), int)
    for row in s if k > 1 else ():
        first, second = np.argsort(-row, kind="stable")[:2]
        if row[second] > 0:
            pairs[first, second] += 1
    return np.array(made), pairs


def passes(x, topics, number, inner=10):
    """EM from there; also log-likelihoods of a word, and shares of the last pass."""
    c = x.toarray().astype(float)
    c = c[c.sum(axis=1) > 0]
    m = topics.T.astype(float)  # words x topics
    seen, em, most, further = [], None, -np.inf, True
    for done in range(max(1, number)):
        smooth = 0.99 * m + 0.01 / len(m)
        theta = np.full((len(c), m.shape[1]), 1 / m.shape[1])
        for _ in range(inner):
            theta = theta * ((c / (theta @ smooth.T)) @ smooth) + 0.02
            theta /= theta.sum(axis=1, keepdims=True)
        p = theta @ smooth.T
        seen.append((c * np.log(p)).sum() / c.sum())
        posterior = seen[-1] + 0.01 * np.log(smooth).sum() / c.sum()
        if em is not None and posterior < most:  # it went too far
            m, em, further = em, None, False
            continue
        counts = smooth * ((c / p).T @ theta)
        if number:
            most, em = posterior, None
            m = counts + 0.01
            m = m / m.sum(axis=0)
            if further and done + 1 < number:
                em, m = m, m * (m / smooth) ** 0.8
                m = m / m.sum(axis=0)
    return m.T, np.array(seen), counts.sum(axis=0) / counts.sum()
