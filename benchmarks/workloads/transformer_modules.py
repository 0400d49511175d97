"""The transformer as a module, of PyTorch and of pullback."""

from __future__ import annotations

from typing import Any

from benchmarks.training import pullback_training, torch_training
from benchmarks.workload import Case
from benchmarks.workloads.transformer_arrays import Arrays, from_state, to_state


def with_torch(arrays: Arrays, compile: Any) -> Case:
    import torch
    from torch import nn
    from torch.nn import functional

    params, (tokens, following), heads = arrays
    (words, width), length = params["words"].shape, tokens.shape[1]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attention(self, x: Any) -> Any:
            batch, length, width = x.shape
            qkv = self.qkv(x).view(batch, length, 3, heads, width // heads).unbind(2)
            q, k, v = (y.transpose(1, 2) for y in qkv)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class LM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block() for _ in params["layers"])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = LM()
    model.load_state_dict({k: torch.tensor(v.copy()) for k, v in to_state(params).items()})
    forward = compile(model)

    def loss(batch: Any) -> Any:
        tokens, following = batch
        return functional.cross_entropy(forward(tokens).flatten(0, 1), following.flatten())

    batch = torch.tensor(tokens), torch.tensor(following).long()
    return torch_training(
        loss, model.parameters(), batch,
        lambda: from_state({name: p.grad for name, p in model.named_parameters()}),
    )  # fmt: skip


def with_pullback_nn(arrays: Arrays) -> Case:
    import pullback as pb
    from pullback import nn

    params, batch, heads = arrays
    (words, width), length = params["words"].shape, batch[0].shape[1]

    class Block(nn.Module):
        def __init__(self) -> None:
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.MultiHeadAttention(width, heads)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x), causal=True)
            hidden = nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh")
            return x + self.down(hidden)

    class LM(nn.Module):
        def __init__(self) -> None:
            self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = [Block() for _ in params["layers"]]
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    def loss(model: Any, batch: Any) -> Any:
        tokens, following = batch
        return nn.functional.cross_entropy(model(tokens), following)

    # names of the layer's parameters that differ
    layer_names = {"qkv.": "attention.in_proj_", "out.": "attention.out_proj."}

    def renamed(name: str, to_layer: bool) -> str:
        for short, long in layer_names.items():
            name = name.replace(short, long) if to_layer else name.replace(long, short)
        return name

    with nn.rng(pb.random.key(0)):
        model = LM()
    model.load_state_dict({renamed(name, True): v for name, v in to_state(params).items()})
    return pullback_training(
        loss, model, batch,
        gradient_tree=lambda grads: from_state(
            {renamed(name, False): v for name, v in grads.state_dict().items()}
        ),
    )  # fmt: skip
