"""Plain sweeps in NumPy, with the association that kernels of weights promise."""

from __future__ import annotations

import numpy as np

PADS = {"periodic": "wrap", "neumann": "symmetric", "mirror": "reflect"}


def source_of(at, n, low, high):
    """The interior index that a ghost takes, or the value of the side; rules take turns on short axes."""
    for _ in range(1000):
        if 0 <= at < n:
            return at, None
        rule, value = low if at < 0 else high
        if rule == "fixed":
            return None, value
        if rule == "periodic":
            at %= n
        elif rule == "neumann":
            at = -1 - at if at < 0 else 2 * n - 1 - at
        elif n == 1:
            at = 0
        else:
            at = -at if at < 0 else 2 * (n - 1) - at
    raise AssertionError


def beyond(value, layer, axis, radius, edges):
    """What a fixed side has: a number, or a face that goes on along the axes before it by their rules."""
    face = np.asarray(value, layer.dtype)
    for d in range(axis if face.ndim else 0):
        n = face.shape[d]
        sources = [source_of(at, n, *edges[d])[0] for at in range(-radius[d], n + radius[d])]
        nearest = [min(max(i - radius[d], 0), n - 1) if at is None else at for i, at in enumerate(sources)]
        face = np.take(face, nearest, axis=d)
    return np.broadcast_to(face, layer.shape)


def padded(u, radius, edges):
    """Ghosts axis by axis, axis 0 first."""
    for d, (h, (low, high)) in enumerate(zip(radius, edges, strict=True)):
        n = u.shape[d]
        layers = []
        for at in range(-h, n + h):
            index, value = source_of(at, n, low, high)
            layer = np.take(u, 0 if index is None else index, axis=d)
            layers.append(layer if index is not None else beyond(value, layer, d, radius, edges))
        u = np.stack(layers, axis=d)
    return u


def weighted(u, weights, edges):
    """W(u)."""
    radius = [max(abs(at[d]) for at in weights) for d in range(u.ndim)]
    wide = padded(u, radius, edges)

    def neighbour(at):
        return wide[tuple(slice(h + o, h + o + n) for h, o, n in zip(radius, at, u.shape, strict=True))]

    groups = {}
    for at in sorted(weights):
        groups.setdefault(weights[at], []).append(at)
    total = None
    for weight, offsets in groups.items():
        part = neighbour(offsets[0]).copy()
        for at in offsets[1:]:
            part += neighbour(at)
        part *= np.asarray(weight).astype(u.real.dtype)
        total = part if total is None else total + part
    return total


def times(a, b):
    """A product that rounds every operation: NumPy's of complex numbers may fuse two of them."""
    if a.dtype.kind != "c":
        return a * b
    made = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    made.real = a.real * b.real - a.imag * b.imag
    made.imag = a.real * b.imag + a.imag * b.real
    return made


def over(a, b):
    """A quotient; of complex numbers Smith's."""
    if a.dtype.kind != "c":
        return a / b
    one, turned = b.real.dtype.type(1), np.abs(b.real) < np.abs(b.imag)
    large, small = np.where(turned, b.imag, b.real), np.where(turned, b.real, b.imag)
    ratio = small / large
    scale = one / (large + small * ratio)
    made = np.empty_like(a)
    made.real = np.where(turned, a.real * ratio + a.imag, a.real + a.imag * ratio) * scale
    made.imag = np.where(turned, a.imag * ratio - a.real, a.imag - a.real * ratio) * scale
    return made


def swept(kernel, state, steps, edges, coefficients=(), sources=(), receivers=()):
    """What `fl.stencil` returns: state, traces. `kernel`: weights, or a function of whole arrays."""
    pair = isinstance(state, tuple)
    before, now = state if pair else (None, state)
    traces = np.zeros((steps, len(receivers)), now.dtype)
    one = now.dtype.type(1)
    for t in range(steps):
        if callable(kernel):
            following = kernel(now, before, *coefficients)
        else:
            w = weighted(now, kernel, edges)
            k = [np.broadcast_to(c, now.shape).astype(now.dtype) for c in coefficients]
            if not pair:
                following = now + times(k[0], w) if k else w
                following = following + k[1] if len(k) == 2 else following
            elif not k:
                following = w - before
            elif len(k) == 1:
                following = ((now + now) - before) + times(k[0], w)
            else:
                kept = times(one - k[1], before)
                following = over(((now + now) - kept) + times(k[0], w), one + k[1])
        for index, series in sources:
            following[index] += now.dtype.type(series[t])
        for r, index in enumerate(receivers):
            traces[t, r] = following[index]
        before, now = now, following
    return ((before, now) if pair else now), traces


def as_edges(boundary, ndim):
    """The rules of both sides of each axis."""
    each = [boundary] * ndim if isinstance(boundary, (str, dict)) else boundary

    def rule(side):
        return ("fixed", side["fixed"]) if isinstance(side, dict) else (side, 0)

    return [tuple(rule(s) for s in (axis if isinstance(axis, tuple) else (axis, axis))) for axis in each]


class Ghosted:
    """A field with ghosts: NumPy's twin of a function of neighbours indexes it as that does."""

    def __init__(self, values, edges, reach=2):
        self.reach, self.shape = reach, values.shape
        self.wide = padded(values, (reach,) * values.ndim, edges)

    def __getitem__(self, at):
        at = at if isinstance(at, tuple) else (at,)
        return self.wide[
            tuple(slice(self.reach + o, self.reach + o + n) for o, n in zip(at, self.shape, strict=True))
        ]


def stages_swept(stages, state, steps, edges, coefficients=()):
    """What `fl.stencil` makes of a dict of fields: stages are functions whose parameters name them.

    A parameter that is no field takes the next coefficient.
    """
    state = dict(state)
    for _ in range(steps):
        for stage in stages:
            code = stage.__code__
            rest = iter(coefficients)
            seen = [
                Ghosted(state[name], edges) if name in state else next(rest)
                for name in code.co_varnames[: code.co_argcount]
            ]
            found = stage(*seen)
            state.update({name: np.asarray(values, state[name].dtype) for name, values in found.items()})
    return state
