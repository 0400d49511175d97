"""Kernels for GPUs that pullback generates: Triton IR, which XLA compiles as part of a program.

`fusion` finds the parts of a program that one kernel can compute, `row_kernel` writes the kernel.
`small_matrices` has kernels that ops of linear algebra call.
"""
