"""What PyTorch and NumPy have as one call: expressions as in `forms.py`, for the rest of the library.  A line of names is a family whose calls look alike."""

from __future__ import annotations

TORCH: dict[str, tuple[str, ...]] = {}
NUMPY: dict[str, tuple[str, ...]] = {}


def _alike(table: dict[str, tuple[str, ...]], call: str, names: str) -> None:
    """`ours=theirs`, or one name for both, in `call`."""
    for name in names.split():
        ours, _, theirs = name.partition("=")
        table[ours] = (call.format(theirs or ours),)


def _each(table: dict[str, tuple[str, ...]], lines: str) -> None:
    """`name: expression`, a line each."""
    for line in lines.strip().splitlines():
        name, _, text = line.strip().partition(": ")
        table[name] = (*table.get(name, ()), text)


# ---- elementwise
_alike(
    TORCH, "torch.{}(X, out=Y)",
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac isneginf isposinf lgamma log log10 log1p log2"
    " logit nan_to_num neg rad2deg reciprocal round rsqrt sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc bitwise_not logical_not"
    " entropy=special.entr normal_cdf=special.ndtr",
)  # fmt: skip
_alike(TORCH, "torch.{}(X)", "isfinite isinf isnan")
_alike(
    TORCH, "torch.{}(X, Y, out=Z)",
    "add sub mul div maximum minimum fmax fmin fmod remainder mod=remainder pow copysign equal=eq not_equal=ne greater=gt greater_equal=ge less=lt less_equal=le"
    " hypot logaddexp logaddexp2 nextafter floordiv=floor_divide left_shift=bitwise_left_shift right_shift=bitwise_right_shift logical_and logical_or logical_xor"
    " bitwise_and bitwise_or bitwise_xor xlogy xlog1py=special.xlog1py",
)  # fmt: skip
_alike(NUMPY, "numpy.{}(X, out=Y)", "cbrt exp2 signbit")
_each(TORCH, """
    atan2: torch.atan2(Y, X, out=Z)
    heaviside: torch.heaviside(X, H, out=Y)
    clamp: torch.clamp(X, low, high, out=Y)
    clip: torch.clip(X, LOW, HIGH, out=Y)
    lerp: torch.lerp(A, B, W, out=Y)
    isclose: torch.isclose(X, Y, rtol, atol, equal_nan)
""")  # fmt: skip

# ---- activations
_alike(TORCH, "torch.ops.aten.{}.out(X, out=Y)", "hardsigmoid hardswish log_sigmoid mish softplus")
_alike(TORCH, "functional.{}(X)", "selu softsign tanhshrink")
_each(TORCH, """
    celu: functional.celu(X, alpha)
    elu: torch.ops.aten.elu.out(X, alpha, out=Y)
    glu: torch.ops.aten.glu.out(X, -1, out=Y)
    hardshrink: torch.ops.aten.hardshrink.out(X, threshold, out=Y)
    softshrink: torch.ops.aten.softshrink.out(X, threshold, out=Y)
    hardtanh: torch.ops.aten.hardtanh.out(X, low, high, out=Y)
    leaky_relu: torch.ops.aten.leaky_relu.out(X, slope, out=Y)
    prelu: functional.prelu(X, A)
    relu: torch.clamp_min(X, 0, out=Y)
    relu6: torch.ops.aten.hardtanh.out(X, 0.0, 6.0, out=Y)
    threshold: torch.ops.aten.threshold.out(X, threshold, value, out=Y)
    geglu: torch.mul(torch.ops.aten.gelu.out(G, out=Y), X, out=Y)
    swiglu: torch.mul(torch.ops.aten.silu.out(G, out=Y), X, out=Y)
    reglu: torch.mul(torch.clamp_min(G, 0, out=Y), X, out=Y)
    softmin: functional.softmin(X, axis)
    masked_softmax: torch.softmax(X.masked_fill(~M, float('-inf')), -1, out=Y)
""")  # fmt: skip

# ---- reductions and scans
_alike(TORCH, "torch.{}(X, axis, out=Y)", "sum mean max=amax min=amin any all nansum nanmean cumsum cumprod")
_alike(NUMPY, "numpy.{}(X, axis)", "ptp nanmax nanmin count_nonzero")
_each(TORCH, """
    amax: torch.linalg.vector_norm(X, float('inf'), axis, out=Y)
    inf_norm: torch.linalg.vector_norm(X, float('inf'), axis, out=Y)
    amin: torch.linalg.vector_norm(X, float('-inf'), axis, out=Y)
    l1_norm: torch.linalg.vector_norm(X, 1, axis, out=Y)
    norm: torch.linalg.vector_norm(X, 2, axis, out=Y)
    p_norm: torch.linalg.vector_norm(X, p, axis, out=Y)
    count_nonzero: torch.count_nonzero(X, axis)
    prod: torch.prod(X, *axis, out=Y)
    quantile: torch.quantile(X, q, -1)
    median: torch.quantile(X, 0.5, -1)
    histogram: torch.histc(X, bins, low, high).long()
    moments: torch.var_mean(X, axis, correction=0)[::-1]
    cummax: torch.cummax(X, axis)[0]
    cummin: torch.cummin(X, axis)[0]
    logcumsumexp: torch.logcumsumexp(X, -1, out=Y)
    diff: torch.diff(X, out=Y)
""")  # fmt: skip
_each(NUMPY, """
    quantile: numpy.quantile(X, q, -1)
    median: numpy.median(X, -1)
    cummax: numpy.maximum.accumulate(X, axis, out=Y)
    cummin: numpy.minimum.accumulate(X, axis, out=Y)
    weighted_mean: numpy.average(X, -1, W)
""")  # fmt: skip

# ---- movement
_each(TORCH, """
    concat: torch.cat((A, B), -1, out=Y)
    stack: torch.stack((A, B), -2, out=Y)
    interleave: torch.stack((A, B), -1).flatten(-2)
    diag: torch.diag(X, k, out=Y)
    diagonal: Y.copy_(torch.diagonal(X, k, -2, -1))
    expand: Y.copy_(X.expand(Y.shape))
    flip: torch.flip(X, tuple(range(X.ndim)))
    gather: torch.index_select(X, 0, I, out=Y)
    gather_elements: torch.gather(X, axis, I, out=Y)
    gather_nd: X[I[:, 0], I[:, 1]]
    masked_fill: torch.masked_fill(X, M, value)
    meshgrid: (X.copy_(A[:, None].expand(X.shape)), Y.copy_(B.expand(Y.shape)))
    one_hot: functional.one_hot(I, classes).float()
    pad_constant: functional.pad(X, (before, after), value=value)
    pad_circular: functional.pad(X, (before, after), mode='circular')
    pad_reflect: functional.pad(X, (before, after), mode='reflect')
    pad_replicate: functional.pad(X, (before, after), mode='replicate')
    permute: Y.copy_(X.permute(order))
    repeat: torch.repeat_interleave(X, count, -1)
    roll: torch.roll(X, shift, axis)
    rot90: Y.copy_(torch.rot90(X, 1, (-2, -1)))
    scatter: torch.index_copy(X, 0, I, U, out=Y)
    scatter_add: torch.index_add(X, 0, I, U, out=Y)
    scatter_max: torch.index_reduce(X, 0, I, U, 'amax', out=Y)
    scatter_min: torch.index_reduce(X, 0, I, U, 'amin', out=Y)
    scatter_mul: torch.index_reduce(X, 0, I, U, 'prod', out=Y)
    scatter_elements: torch.scatter(X, 0, I, U, out=Y)
    scatter_nd: torch.index_put(X, (I[:, 0], I[:, 1]), U)
    searchsorted: torch.searchsorted(S, V, right=right, out=I)
    segment_sum: Y.zero_().index_add_(0, S, X)
    segment_max: Y.fill_(float('-inf')).index_reduce_(0, S, X, 'amax')
    segment_min: Y.fill_(float('inf')).index_reduce_(0, S, X, 'amin')
    argsort: torch.argsort(X, stable=True, dim=-1, descending=descending)
    sort_pairs: J = torch.empty_like(K, dtype=torch.int64); (torch.sort(K, -1, descending, out=(Y, J))[0], torch.gather(V, -1, J, out=Z))
    topk: torch.topk(X, k, -1, out=(Y, I))
    take: torch.index_select(X, -1, I, out=Y)
    take_along: torch.take_along_dim(X, I, -1, out=Y)
    tile: torch.tile(X, (rows, columns))
    transpose: Y.copy_(X.mT)
    tril: torch.tril(X, k, out=Y)
    triu: torch.triu(X, k, out=Y)
    unfold: Y.copy_(X.unfold(-1, size, step))
    vander: torch.vander(X, columns)
    where: torch.where(C, A, B, out=Y)
    inverse_permutation: J = torch.arange(N); Y.scatter_(0, I, J)
""")  # fmt: skip
_each(NUMPY, """
    argsort: numpy.argsort(X, -1, kind='stable')
    diag: numpy.diag(X, k)
    repeat: numpy.repeat(X, count, -1)
    roll: numpy.roll(X, shift, axis)
    searchsorted: numpy.searchsorted(S, V, 'right' if right else 'left')
    take: numpy.take(X, I, -1, out=Y, mode='clip')
    tile: numpy.tile(X, (rows, columns))
    vander: numpy.vander(X, columns)
""")  # fmt: skip

# ---- linear algebra
_each(TORCH, """
    axpy: Y.add_(X, alpha=alpha)
    bilinear: functional.bilinear(X, Y, W, B)
    cholesky: torch.linalg.cholesky(A, out=L)
    cholesky_solve: torch.cholesky_solve(B, torch.linalg.cholesky(A), out=X)
    correlation: torch.corrcoef(X)
    cosine_similarity: functional.cosine_similarity(A, B, -1, eps)
    covariance: torch.cov(X)
    cross: torch.linalg.cross(A, B, out=C)
    determinant: torch.linalg.det(A)
    dot: torch.dot(X, Y, out=Z)
    gemv: Y.addmv_(A, X, alpha=alpha, beta=beta)
    gemv_t: Y.addmv_(A.T, X, alpha=alpha, beta=beta)
    ger: A.addr_(X, Y, alpha=alpha)
    gram: torch.matmul(X, X.mT, out=Y)
    inverse: torch.linalg.inv(A, out=X)
    inverse_lower: torch.linalg.solve_triangular(A, torch.eye(N).expand(A.shape), upper=False, out=X)
    kron: torch.kron(A, B, out=C)
    matrix_power: torch.linalg.matrix_power(A, n, out=B)
    matvec: torch.mv(A, X, out=Y)
    normalize: functional.normalize(X, 2.0, -1, eps, out=Y)
    outer: torch.outer(X, Y, out=Z)
    pairwise_distance: torch.cdist(X, Y, compute_mode='donot_use_mm_for_euclid_dist')
    quadratic_form: torch.linalg.vecdot(X @ A, X, out=Y)
    solve: torch.linalg.solve(A, B, out=X)
    solve_lower: torch.linalg.solve_triangular(A, B, upper=False, unitriangular=unit, out=X)
    solve_lower_transposed: torch.linalg.solve_triangular(A.mT, B, upper=True, out=X)
    solve_upper: torch.linalg.solve_triangular(A, B, upper=True, unitriangular=unit, out=X)
    symm: C.addmm_(torch.tril(A) + torch.tril(A, -1).T, B, alpha=alpha, beta=beta)
    syrk: C.addmm_(A, A.T, alpha=alpha, beta=beta)
    tensordot: torch.tensordot(A, B, 1, out=C)
    trace: torch.trace(A)
    trace_product: torch.sum(A * B.T)
    trmm: B.copy_(torch.tril(A) @ B).mul_(alpha)
    vecdot: torch.linalg.vecdot(A, B, out=Y)
""")  # fmt: skip

# ---- layers
_each(TORCH, """
    adaptive_avgpool1d: functional.adaptive_avg_pool1d(X, size)
    adaptive_avgpool2d: functional.adaptive_avg_pool2d(X, size)
    adaptive_maxpool1d: functional.adaptive_max_pool1d(X, size)
    adaptive_maxpool2d: functional.adaptive_max_pool2d(X, size)
    add_norm: (Y.copy_(functional.layer_norm(torch.add(X, R, out=S), (N,), W, B, eps)), S)
    avgpool1d: functional.avg_pool1d(X, kernel, stride, padding, False, count_include_pad)
    avgpool2d: functional.avg_pool2d(X, kernel, stride, padding, False, count_include_pad)
    avgpool3d: functional.avg_pool3d(X, kernel, stride, padding)
    batch_norm: functional.batch_norm(X, MEAN, VAR, SCALE, BIAS, False, 0.0, eps)
    channel_shuffle: functional.channel_shuffle(X, groups)
    col2im: functional.fold(X, pair(size), pair(kernel), pair(dilation), pair(padding), pair(stride))
    depthwise_conv2d: functional.conv2d(X, K[:, None], Bias, stride, padding, dilation, C)
    embedding_bag: functional.embedding_bag(I, E, mode=mode, per_sample_weights=W)
    feed_forward: functional.linear(functional.gelu(functional.linear(X, W1, B1)), W2, B2)
    global_avgpool: torch.mean(X, (-2, -1), out=Y)
    global_maxpool: torch.amax(X, (-2, -1), out=Y)
    group_norm: functional.group_norm(X, groups, SCALE, BIAS, eps)
    grouped_query_attention: functional.scaled_dot_product_attention(Q, K, V, is_causal=causal, enable_gqa=True)
    gru_cell: torch.gru_cell(X, H, W, U, Bias, C)
    im2col: functional.unfold(X, pair(kernel), pair(dilation), pair(padding), pair(stride))
    instance_norm: functional.instance_norm(X, None, None, SCALE, BIAS, eps=eps)
    l2_normalize: functional.normalize(X, 2.0, axis, eps, out=Y)
    local_response_norm: functional.local_response_norm(X, size, alpha, beta, k)
    lppool2d: functional.lp_pool2d(X, p, pair(kernel), pair(stride))
    lstm_cell: torch.lstm_cell(X, (H, C), W, U, Bias, torch.zeros_like(Bias))
    maxpool1d: functional.max_pool1d(X, kernel, stride, padding, dilation)
    maxpool2d: functional.max_pool2d(X, kernel, stride, padding, dilation)
    maxpool3d: functional.max_pool3d(X, kernel, stride, padding)
    pixel_shuffle: functional.pixel_shuffle(X, factor)
    pixel_unshuffle: functional.pixel_unshuffle(X, factor)
    pointwise_conv2d: functional.conv2d(X, K[:, :, None, None], Bias)
    resize_bicubic: functional.interpolate(X[None], Y.shape[-2:], mode='bicubic', align_corners=align_corners)[0]
    resize_bilinear: functional.interpolate(X[None], Y.shape[-2:], mode='bilinear', align_corners=align_corners)[0]
    resize_linear: functional.interpolate(X[None], Y.shape[-1:], mode='linear', align_corners=align_corners)[0]
    resize_nearest: functional.interpolate(X[None], Y.shape[-2:], mode='nearest')[0]
    rnn_cell: torch.rnn_tanh_cell(X, H, W, U, Bias, torch.zeros_like(Bias))
    weight_norm: torch._weight_norm(V, G[:, None], 0)
""")  # fmt: skip

# ---- losses
_alike(
    TORCH, "functional.{}(X, Y, reduction=reduction)",
    "bce=binary_cross_entropy bce_with_logits=binary_cross_entropy_with_logits mae=l1_loss mse=mse_loss soft_margin=soft_margin_loss kl_div",
)  # fmt: skip
_each(TORCH, """
    cosine_embedding: functional.cosine_embedding_loss(X, Y, S, margin, reduction=reduction)
    cross_entropy: functional.cross_entropy(X, I, label_smoothing=smoothing, reduction=reduction)
    gaussian_nll: functional.gaussian_nll_loss(X, Y, V, False, eps, reduction)
    huber: functional.huber_loss(X, Y, reduction, delta)
    margin_ranking: functional.margin_ranking_loss(X, Y, S, margin, reduction=reduction)
    nll: functional.nll_loss(X, I, reduction=reduction)
    poisson_nll: functional.poisson_nll_loss(X, Y, reduction=reduction)
    smooth_l1: functional.smooth_l1_loss(X, Y, reduction=reduction, beta=beta)
    triplet: functional.triplet_margin_loss(A, POSITIVE, NEGATIVE, margin, reduction=reduction)
""")  # fmt: skip

# ---- complex numbers
_alike(TORCH, "torch.{}(Z, out=Y)", "complex_abs=abs complex_angle=angle complex_exp=exp complex_log=log complex_sqrt=sqrt")
_alike(TORCH, "torch.{}(A, B, out=Y)", "complex_add=add complex_mul=mul complex_div=div")
_alike(TORCH, "torch.fft.{}(X, out=Y)", "fft fft2 rfft")
_each(TORCH, """
    ifft: torch.fft.ifft(Y, out=X)
    irfft: torch.fft.irfft(Y, out=X)
    dft: torch.fft.fft(X, out=Y)
    fftshift: torch.fft.fftshift(X, -1)
    ifftshift: torch.fft.ifftshift(X, -1)
    adjoint: B.copy_(A.mH)
    complex_matmul: torch.matmul(A, B, out=C)
    from_parts: torch.complex(X, Y, out=Z)
    polar: torch.polar(R, Phi, out=Z)
    vdot: torch.linalg.vecdot(A, B, out=Y)
    circular_convolution: torch.fft.irfft(torch.fft.rfft(A).mul_(torch.fft.rfft(B)), N, out=Y)
    stft: torch.stft(X, size, step, window=torch.hann_window(size), center=False, return_complex=True).mT
""")  # fmt: skip
_alike(NUMPY, "numpy.fft.{}(X, out=Y)", "fft rfft")
_each(NUMPY, """
    ifft: numpy.fft.ifft(Y, out=X)
    irfft: numpy.fft.irfft(Y, out=X)
    complex_mul: numpy.multiply(A, B, out=Y)
    complex_div: numpy.divide(A, B, out=Y)
    complex_matmul: numpy.matmul(A, B, out=C)
""")  # fmt: skip

__all__ = ["NUMPY", "TORCH"]
