"""Kernels for GPUs that pullback generates: Triton IR, which XLA compiles as part of a program.

`kernel_fusion` puts kernels in the place of parts of a program: `row_kernel` writes those with
reductions of rows, `flat_kernels` elementwise ones. `small_matrices` has kernels that ops of linear
algebra call.
"""
