"""Ops that stand for several others in the programs of engines, where one kernel computes them.

No function records them: programs that users see have the ops that were written.
"""

from pullback.ops.fused import layer_norm, log_probability, softmax_gradient  # noqa: F401
