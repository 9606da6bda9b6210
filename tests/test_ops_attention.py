"""Attention, positions and recurrent cells of the library against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from library import Array, Case, check
from scipy import special


def scores(q: Array, k: Array) -> Array:
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


def behind(s: Array) -> Array:
    """How far each key lies behind each query, the last query standing at the last key."""
    n, m = s.shape[-2:]
    return np.arange(n)[:, None] + (m - n) - np.arange(m)


def attend(s: Array, v: Array) -> Array:
    return special.softmax(s, -1) @ v


def causal(s: Array) -> Array:
    return np.where(behind(s) >= 0, s, -np.inf)


def window(q: Array, k: Array, v: Array) -> Array:
    s = scores(q, k)
    return attend(np.where((behind(s) >= 0) & (behind(s) < 5), s, -np.inf), v)


def alibi(q: Array, k: Array, v: Array) -> Array:
    s = scores(q, k)
    heads = q.shape[1]
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    return attend(causal(s - slopes[:, None, None] * behind(s)), v)


def grouped(q: Array, k: Array, v: Array, mask: bool = False) -> Array:
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = scores(q, k)
    return attend(causal(s) if mask else s, v)


def multi_head(x: Array, y: Array, wq: Array, wk: Array, wv: Array, wo: Array, mask: bool = False) -> Array:
    q, k, v = (np.stack(np.split(z @ w.T, 3, -1), 1) for z, w in ((x, wq), (y, wk), (y, wv)))
    s = scores(q, k)
    return np.concatenate(list(np.moveaxis(attend(causal(s) if mask else s, v), 1, 0)), -1) @ wo.T


def cached(q: Array, k: Array, v: Array, p: Array, keys: Array, values: Array) -> tuple[Array, Array, Array]:
    keys, values = keys.copy(), values.copy()
    out = np.zeros((*q.shape[:2], v.shape[-1]))
    for b, at in enumerate(p):
        keys[b, :, at], values[b, :, at] = k[b], v[b]
        out[b] = grouped(q[b][None, :, None], keys[b : b + 1, :, : at + 1], values[b : b + 1, :, : at + 1])[0, :, 0]
    return out, keys, values


def linear(q: Array, k: Array, v: Array) -> Array:
    def phi(x: Array) -> Array:
        return np.where(x > 0, x + 1, np.exp(x))

    w = phi(q) @ np.swapaxes(phi(k), -1, -2)
    return w / w.sum(-1, keepdims=True) @ v


def relative(s: Array, w: Array) -> Array:
    reach = w.shape[1] // 2
    n, m = s.shape[-2:]
    return s + w[:, np.clip(np.arange(m) - np.arange(n)[:, None], -reach, reach) + reach]


def angles(positions: Array, d: int) -> Array:
    return positions[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)


def turned(x: Array, positions: Array) -> Array:
    """The halves of the last axis as the parts of complex numbers."""
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles(positions, x.shape[-1]))
    return np.concatenate([z.real, z.imag], -1)


def interleaved(x: Array) -> Array:
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles(np.arange(x.shape[-2]), x.shape[-1]))
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def sinusoidal(x: Array) -> Array:
    a = angles(np.arange(x.shape[-2]), x.shape[-1])
    y = x.copy()
    y[..., 0::2] += np.sin(a)
    y[..., 1::2] += np.cos(a)
    return y


def gelu(x: Array) -> Array:
    return x * special.ndtr(x)


def gru(x: Array, h: Array, w: Array, u: Array, b: Array, c: Array) -> Array:
    f = h.shape[1]
    gx, gh = x @ w.T + b, h @ u.T + c
    r, z = (special.expit(gx[:, k * f : (k + 1) * f] + gh[:, k * f : (k + 1) * f]) for k in (0, 1))
    return (1 - z) * np.tanh(gx[:, 2 * f :] + r * gh[:, 2 * f :]) + z * h


def lstm(x: Array, h: Array, c: Array, w: Array, u: Array, b: Array) -> tuple[Array, Array]:
    i, f, g, o = np.split(x @ w.T + h @ u.T + b, 4, 1)
    state = special.expit(f) * c + special.expit(i) * np.tanh(g)
    return special.expit(o) * np.tanh(state), state


def gate(x: Array) -> tuple[Array, Array]:
    order = np.argsort(-x, -1)[..., :2]
    return special.softmax(np.take_along_axis(x, order, -1), -1), order


ALL_KEYS = [{"batch": 3, "N": 9, "M": 9, "D": 5, "E": 4}]
CASES = [
    Case("attention", lambda q, k, v: attend(scores(q, k), v)), Case("attention", lambda q, k, v: attend(causal(scores(q, k)), v), {"causal": True}),
    Case("causal_attention", lambda q, k, v: attend(causal(scores(q, k)), v)),
    Case("causal_attention", lambda q, k, v: attend(causal(scores(q, k) * 0), v), {"scale": 1e-300}, sizes=ALL_KEYS),
    Case("sliding_window_attention", window), Case("softcap_attention", lambda q, k, v: attend(50 * np.tanh(scores(q, k) / 50), v)),
    Case("masked_attention", lambda q, k, v, b: attend(np.where(b, scores(q, k), -np.inf), v), inputs={"B": lambda b: b | (np.arange(b.shape[-1]) == 0)}),
    Case("biased_attention", lambda q, k, v, b: attend(scores(q, k) + b, v)), Case("alibi_attention", alibi),
    Case("grouped_query_attention", grouped), Case("grouped_query_attention", lambda q, k, v: grouped(q, k, v, True), {"causal": True}),
    Case("multi_head_attention", multi_head), Case("multi_head_attention", lambda *x: multi_head(*x, mask=True), {"causal": True}, sizes=[{"B": 2, "N": 5, "C": 15, "M": 7}]),
    Case("cached_attention", cached), Case("linear_attention", linear), Case("relative_bias", relative),
    Case("rotary", lambda x: turned(x, np.arange(x.shape[-2]))), Case("rotary_positions", turned), Case("rotary_interleaved", interleaved),
    Case("sinusoidal_encoding", sinusoidal), Case("learned_encoding", lambda x, w: x + w[: x.shape[-2]]),
    Case("feed_forward", lambda x, w, v, b, c: gelu(x @ w.T + b) @ v.T + c), Case("feed_forward", lambda x, w, v: gelu(x @ w.T) @ v.T, given=()),
    Case("rnn_cell", lambda x, h, w, u, b: np.tanh(x @ w.T + h @ u.T + b)), Case("gru_cell", gru), Case("lstm_cell", lstm),
    Case("moe_gate", gate), Case("embedding_bag", lambda e, i, w: (e[i] * w[..., None]).sum(1)),
    *(Case("embedding_bag", lambda e, i, f=f: f(e[i], axis=1), {"mode": mode}, given=()) for mode, f in (("sum", np.sum), ("mean", np.mean), ("max", np.max))),
    Case("linear", lambda x, w, b: x @ w.T + b), Case("linear", lambda x, w: x @ w.T, given=()),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_attention(case: Case) -> None:
    check(case)
