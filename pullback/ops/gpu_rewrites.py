"""Rewrites of whole programs for GPUs, after derivatives were formed.

Each finds nodes in a program, and returns what computes the same in their place.
"""

from __future__ import annotations

from collections.abc import Callable

from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.elementwise.relu_steps import relu_steps
from pullback.ops.reduce.centred_sums import centred_sums

GPU_REWRITES: tuple[Callable[[Graph], dict[Node, Node]], ...] = (centred_sums, relu_steps)
