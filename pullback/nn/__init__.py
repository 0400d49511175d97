"""Neural networks: modules, layers, functions, initialisers and keys for random layers."""

from __future__ import annotations

from pullback.graph.boundary import publish
from pullback.nn import (
    activation_layers,
    batch_instance_norm,
    conv_layers,
    dropout_layers,
    functional,
    init,
    linear,
    loss_layers,
    normalization_layers,
    padding_layers,
    pooling_layers,
    recurrent,
    recurrent_cells,
    shape_layers,
)
from pullback.nn.activation_layers import *  # noqa: F403
from pullback.nn.attention import MultiHeadAttention
from pullback.nn.batch_instance_norm import *  # noqa: F403
from pullback.nn.containers import Lambda, ModuleDict, ModuleList, Sequential
from pullback.nn.conv_layers import *  # noqa: F403
from pullback.nn.default_keys import seed
from pullback.nn.dropout_layers import *  # noqa: F403
from pullback.nn.from_torch_values import from_torch
from pullback.nn.keys import next_key, rng
from pullback.nn.kv_cache import KVCache
from pullback.nn.linear import *  # noqa: F403
from pullback.nn.lora import LoRALinear, add_lora, merge_lora
from pullback.nn.loss_layers import *  # noqa: F403
from pullback.nn.module import Module, Parameter, State
from pullback.nn.module_tensors import trainable
from pullback.nn.nf4 import NF4Linear, NF4Tensor
from pullback.nn.normalization_layers import *  # noqa: F403
from pullback.nn.padding_layers import *  # noqa: F403
from pullback.nn.pooling_layers import *  # noqa: F403
from pullback.nn.recurrent import *  # noqa: F403
from pullback.nn.recurrent_cells import *  # noqa: F403
from pullback.nn.shape_layers import *  # noqa: F403
from pullback.nn.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "KVCache", "Lambda", "LoRALinear", "Module", "ModuleDict", "ModuleList", "MultiHeadAttention",
    "NF4Linear", "NF4Tensor", "Parameter", "Sequential", "State", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "add_lora",
    "from_torch", "functional", "init", "merge_lora", "next_key", "rng", "seed", "trainable",
    *activation_layers.__all__, *batch_instance_norm.__all__, *conv_layers.__all__,
    *dropout_layers.__all__, *linear.__all__, *loss_layers.__all__, *normalization_layers.__all__,
    *padding_layers.__all__, *pooling_layers.__all__, *recurrent.__all__, *recurrent_cells.__all__,
    *shape_layers.__all__,
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
