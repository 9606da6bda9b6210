"""What people call instead of a composite: expressions of NumPy and PyTorch, by the composite's name.

An expression speaks of the ports, sizes and parameters by their names.  One with a name that the composite has not, or without a port that it reads, does not
count; of the others those count that run and give our result, so a user's own composite of the same name is never compared with something that it is not, and
the fastest of them is taken.  What stands before a `;` is made once and not timed.  `out=` stands wherever the library has it: a fresh output costs page faults.
"""

from __future__ import annotations

from . import one_call

# four axes: with fewer, torch takes a slower road
_ATTENTION = "functional.scaled_dot_product_attention(Q[None], K[None], V[None]"
# in two products and memory of its own, faster where queries are few
_APART = (
    "S, empty = scratch(Q, batch, N, M), scratch(Q); "
    "torch.bmm(torch.softmax(torch.baddbmm(empty, Q, K.mT, beta=0, alpha=D**-0.5, out=S), -1, out=S), V, out=O)"
)

TORCH: dict[str, tuple[str, ...]] = {
    "softmax": ("torch.softmax(X, axis, out=Y)", "torch.softmax(X, -1, out=Y)"),
    "log_softmax": ("torch.ops.aten._log_softmax.out(X, axis, False, out=Y)",),
    "logsumexp": (
        "T = scratch(X, *X.shape); X[..., 0] - torch.ops.aten._log_softmax.out(X, -1, False, out=T)[..., 0]",
        "torch.logsumexp(X, axis, out=Y)",
        "torch.logsumexp(X, -1, out=Y)",
    ),
    "layer_norm": (
        "norm = lambda c: c.mul_(torch.linalg.vector_norm(c, dim=-1, keepdim=True).square_().div_(N).add_(eps).rsqrt_()); "
        "torch.addcmul(B, norm(torch.sub(X, X.mean(-1, keepdim=True), out=Y)), W, out=Y)",
        "functional.layer_norm(X, (N,), W, B, eps)",
        "functional.layer_norm(X, (N,), W, None, eps)",
        "functional.layer_norm(X, (N,), None, None, eps)",
    ),
    "rms_norm": (
        "torch.mul(X, torch.linalg.vector_norm(X, dim=-1, keepdim=True).square_().div_(N).add_(eps).rsqrt_(), out=Y).mul_(W)",
        "functional.rms_norm(X, (N,), W, eps)",
        "functional.rms_norm(X, (N,), None, eps)",
    ),
    "gelu": ("torch.ops.aten.gelu.out(X, out=Y)",),
    "silu": ("torch.ops.aten.silu.out(X, out=Y)",),
    "linear": ("functional.linear(X, W, B)", "functional.linear(X, W)"),
    "matmul": ("torch.matmul(A, B, out=C)",),
    "bmm": ("torch.bmm(A, B, out=C)",),
    "gemm": ("C.addmm_(A, B, alpha=alpha, beta=beta)", "C.addmm_(A, B)"),
    "gemm_nt": ("C.addmm_(A, B.T, alpha=alpha, beta=beta)",),
    "gemm_tn": ("C.addmm_(A.T, B, alpha=alpha, beta=beta)",),
    "gemm_tt": ("C.addmm_(A.T, B.T, alpha=alpha, beta=beta)",),
    "conv1d": (
        "functional.conv1d(X, K, Bias, stride, padding, dilation, groups)",
        "functional.conv1d(X, K, None, stride, padding, dilation, groups)",
    ),
    "conv2d": (
        "functional.conv2d(X, K, Bias, stride, padding, dilation, groups)",
        "functional.conv2d(X, K, None, stride, padding, dilation, groups)",
    ),
    "conv3d": (
        "functional.conv3d(X, K, Bias, stride, padding, dilation, groups)",
        "functional.conv3d(X, K, None, stride, padding, dilation, groups)",
    ),
    "conv_transpose1d": (
        "functional.conv_transpose1d(X, K, Bias, stride, padding, output_padding, groups, dilation)",
        "functional.conv_transpose1d(X, K, None, stride, padding, output_padding, groups, dilation)",
    ),
    "conv_transpose2d": (
        "functional.conv_transpose2d(X, K, Bias, stride, padding, output_padding, groups, dilation)",
        "functional.conv_transpose2d(X, K, None, stride, padding, output_padding, groups, dilation)",
    ),
    "attention": (f"{_ATTENTION}, is_causal=causal)[0]", f"{_ATTENTION})[0]", _APART),
    "causal_attention": (f"{_ATTENTION}, is_causal=True)[0]",),
    "softcap_attention": (
        "S, empty = scratch(Q, batch, N, M), scratch(Q); torch.bmm(torch.softmax("
        "torch.baddbmm(empty, Q, K.mT, beta=0, alpha=D**-0.5 / cap, out=S).tanh_().mul_(cap), -1, out=S), V, out=O)",
    ),
    "masked_attention": (f"{_ATTENTION}, attn_mask=B[None])[0]",),
    "biased_attention": (f"{_ATTENTION}, attn_mask=B[None])[0]",),
    "argmax": ("torch.argmax(X, axis, out=Y)",),
    "argmin": ("torch.argmin(X, axis, out=Y)",),
    "var": (
        "T = scratch(X, *X.shape); torch.linalg.vector_norm(torch.sub(X, X.mean(axis, keepdim=True), out=T), dim=axis).square_().div_(X.numel() // Y.numel())",
        "torch.var(X, axis, correction=0, out=Y)",
    ),
    "std": ("torch.std(X, axis, correction=0, out=Y)",),
    "embedding": ("torch.index_select(W, 0, I, out=Y)",),
    "sort": ("torch.sort(X, axis)[0]", "torch.sort(X, -1)[0]"),
    "int8_matmul": ("torch._int_mm(A, B.T).float().mul_(Sa[:, None]).mul_(Sb)",),
    "transpose2d": ("B.copy_(A.T)",),
}

NUMPY: dict[str, tuple[str, ...]] = {
    "argmax": ("numpy.argmax(X, axis, out=Y)",),
    "argmin": ("numpy.argmin(X, axis, out=Y)",),
    "var": ("numpy.var(X, axis, out=Y)",),
    "std": ("numpy.std(X, axis, out=Y)",),
    "embedding": ("numpy.take(W, I, 0, out=Y, mode='clip')",),
    "sort": ("numpy.sort(X, axis)", "numpy.sort(X, -1)"),
}

# A score function is made once: torch compiles anew for each that it has not seen.
FLEX: dict[str, tuple[str, ...]] = {
    "attention": ("flex_attention(Q[None], K[None], V[None])[0]",),
    "causal_attention": (
        "mask = create_block_mask(lambda b, h, i, j: j <= i + (M - N), None, None, N, M, 'cpu'); flex_attention(Q[None], K[None], V[None], block_mask=mask)[0]",
    ),
    "sliding_window_attention": (
        "mask = create_block_mask(lambda b, h, i, j: (j <= i + (M - N)) & (j > i + (M - N) - window), None, None, N, M, 'cpu'); "
        "flex_attention(Q[None], K[None], V[None], block_mask=mask)[0]",
    ),
    "softcap_attention": ("bent = lambda s, b, h, i, j: cap * torch.tanh(s / cap); flex_attention(Q[None], K[None], V[None], score_mod=bent)[0]",),
}

TINYGRAD: dict[str, tuple[str, ...]] = {
    "matmul": ("product = searched(lambda a, b: a @ b); product(A, B); product(A, B)",),
    "softmax": ("softmax = searched(lambda x: x.softmax(-1)); softmax(X); softmax(X)",),
}

FORMS = {"numpy": {**one_call.NUMPY, **NUMPY}, "torch": {**one_call.TORCH, **TORCH}, "flex": FLEX, "tinygrad": TINYGRAD}
