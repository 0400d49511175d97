"""Every workload, in the order of the table."""

from __future__ import annotations

from benchmarks.workload import Workload
from benchmarks.workloads import (
    adam,
    attention,
    ba,
    cnn,
    dispatch,
    elementwise,
    embedding,
    functional,
    gmm,
    layer_norm,
    lstm,
    matmul,
    mlp,
    python_loop,
    softmax,
    startup,
    transformer,
)

MODULES = (
    mlp, transformer, cnn, lstm,
    elementwise, softmax, matmul, attention, layer_norm, embedding, adam,
    functional, gmm, ba,
    dispatch, python_loop, startup,
)  # fmt: skip
WORKLOADS: dict[str, Workload] = {w.name: w for module in MODULES for w in module.WORKLOADS}
