"""Ops that one kernel computes and programs usually spell out with several others.

A `Spelling` beside an op states one way to write it. When an engine with kernels lowers a program,
`pullback.transforms.recognition` finds the spellings, and what reverse mode makes of them.
"""

from pullback.ops.fused import (  # noqa: F401
    activation_gradients,
    attention_spelling,
    gelu_formulas,
    layer_norm,
    layer_norm_spellings,
    log_probability,
    product_sum,
    softmax_logsumexp,
    softmax_spellings,
    transposed_product,
)
