"""Attention and transformer layers against PyTorch's, in values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import nn

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("default")  # those of other libraries are theirs
RNG = np.random.default_rng(0)
X, MEMORY = RNG.normal(size=(2, 5, 8)), RNG.normal(size=(2, 3, 8))
SEEN = np.array([[True, True, False], [True, True, True]])


def same(theirs, ours, call_theirs, call_ours, *inputs):
    """Compare results and the gradients of all parameters and inputs."""
    ours.load_state_dict({n: p.detach().numpy() for n, p in theirs.state_dict().items()})
    given = [torch.tensor(x, requires_grad=True) for x in inputs]
    y = call_theirs(*given)
    (y**2).sum().backward()
    with pb.config(engine="reference"):
        z = call_ours(ours, *map(pb.tensor, inputs))
        np.testing.assert_allclose(z.numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-9)
        argnums = tuple(range(len(inputs) + 1))
        found = pb.grad(lambda m, *xs: (call_ours(m, *xs) ** 2).sum(), argnums)(
            ours, *map(pb.tensor, inputs)
        )
    grads = dict(found[0].named_parameters())
    for name, p in theirs.named_parameters():
        np.testing.assert_allclose(grads[name].numpy(), p.grad.numpy(), atol=1e-9, err_msg=name)
    for g, x in zip(found[1:], given, strict=True):
        np.testing.assert_allclose(g.numpy(), x.grad.numpy(), atol=1e-9)


def test_multi_head_attention():
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)

    def make():
        return nn.MultiHeadAttention(8, 2, dtype="float64")

    same(theirs, make(), lambda x: theirs(x, x, x)[0], lambda m, x: m(x), X)
    theirs.zero_grad()
    same(
        theirs, make(), lambda x: theirs(x, x, x, attn_mask=causal, is_causal=True)[0],
        lambda m, x: m(x, causal=True), X,
    )  # fmt: skip
    theirs.zero_grad()
    ignored = torch.tensor(~SEEN)
    same(
        theirs, make(), lambda x, y: theirs(x, y, y, key_padding_mask=ignored)[0],
        lambda m, x, y: m(x, y, padding_mask=SEEN), X, MEMORY,
    )  # fmt: skip


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(norm_first):
    options = {"dropout": 0.0, "norm_first": norm_first}
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, dtype=torch.float64, **options
    )
    ours = nn.TransformerEncoderLayer(8, 2, 16, dtype="float64", **options)
    same(theirs, ours, theirs, lambda m, x: m(x), X)
    theirs = torch.nn.TransformerDecoderLayer(
        8, 2, 16, batch_first=True, dtype=torch.float64, **options
    )
    ours = nn.TransformerDecoderLayer(8, 2, 16, dtype="float64", **options)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    same(
        theirs, ours, lambda x, y: theirs(x, y, tgt_mask=causal, tgt_is_causal=True),
        lambda m, x, y: m(x, y), X, MEMORY,
    )  # fmt: skip
