"""What op modules import: the op classes, their records, and helpers for writing rules."""

# ruff: noqa: F401

from pullback.graph.node import Node, constant_node, result_nodes
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.composite import Composite, CompositeOnMesh
from pullback.ops.helpers import *  # noqa: F403
from pullback.ops.imported import Imported
from pullback.ops.interpret import interpret
from pullback.ops.op import Op
from pullback.ops.parts import Parts
from pullback.ops.text import CORE, GRADIENT, Text
