"""The library holds what somebody who comes from NumPy, SciPy, PyTorch or BLAS looks for, under the name that it has there."""

from __future__ import annotations

import pytest
from luminal.dsl.operators import TABLE
from luminal.dsl.scope import LIBRARY

EXPECTED = {
    "elementwise": """add sub mul div floordiv mod pow neg abs sign square sqrt rsqrt reciprocal maximum minimum fmax fmin fma equal not_equal less less_equal greater greater_equal
        logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift floor ceil round trunc frac exp exp2 exp10 expm1 log log2 log10
        log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot cbrt erf erfc lgamma digamma copysign nextafter fmod remainder clip lerp nan_to_num isnan isinf isfinite
        signbit""",
    "activation": "relu relu6 leaky_relu prelu elu selu celu gelu silu mish softplus softsign hardswish hardsigmoid sigmoid log_sigmoid glu swiglu geglu",
    "reduce and scan": """sum prod mean var std max min argmax argmin any all logsumexp l1_norm norm inf_norm p_norm moments histogram bincount cumsum cumprod cummax cummin softmax
        log_softmax""",
    "linalg": """dot outer gemv gemv_t gemm gemm_nt gemm_tn gemm_tt bmm einsum trace tril triu kron cross diag matrix_power solve_lower solve_upper cholesky""",
    "nn": """linear embedding layer_norm rms_norm batch_norm group_norm instance_norm dropout conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d depthwise_conv2d im2col
        col2im maxpool1d maxpool2d maxpool3d avgpool1d avgpool2d avgpool3d lppool2d adaptive_avgpool1d adaptive_avgpool2d adaptive_maxpool1d adaptive_maxpool2d global_avgpool global_maxpool
        resize_nearest resize_bilinear resize_bicubic pixel_shuffle attention multi_head_attention grouped_query_attention causal_attention sliding_window_attention alibi_attention
        softcap_attention biased_attention cached_attention rotary""",
    "loss": "mse mae huber bce cross_entropy nll kl_div",
    "optimizer": "sgd momentum adam adamw lion rmsprop",
    "movement": """reshape transpose permute expand pad flip slice concat stack split squeeze unsqueeze unfold tile gather scatter iota gather_elements gather_nd scatter_add scatter_max where
        one_hot repeat roll meshgrid sort argsort topk searchsorted""",
    "random": "philox threefry uniform normal bernoulli randint exponential standard_gamma beta permutation",
    "quantize": """quantize_int8 dequantize_int8 quantize_int8_channels dequantize_int8_channels int8_matmul quantize_q8_0 dequantize_q8_0 q8_0_matmul quantize_q4_0 dequantize_q4_0
        q4_0_matmul quantize_f8 dequantize_f8 f8_matmul""",
    "complex": "complex_add complex_mul complex_abs conjugate complex_exp dft fft ifft complex_matmul",
}


@pytest.mark.parametrize("family", EXPECTED)
def test_the_operators_of_a_family_are_there(family: str) -> None:
    """Composites of the library, or operators of the language itself."""
    there = {p.stem for p in LIBRARY.glob("*/*.toml")} | {name.replace("-", "_") for name in TABLE}
    assert [name for name in EXPECTED[family].split() if name not in there] == []
