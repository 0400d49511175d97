"""A GPT that learns to write like a book, character by character.

    python examples/gpt.py --steps 500 --out runs/gpt      # train, then write some text
    python examples/gpt.py --steps 1000 --out runs/gpt     # continue where it ended

With `python -m pullback.distributed --nproc 2 examples/gpt.py ...`, two processes share each batch.
"""

from __future__ import annotations

import argparse
import os

import pullback as pb
from pullback import nn


class Block(nn.Module):
    """Attention to earlier characters, then a network for each position."""

    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads, rotary=True)
        self.network = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x, cache=None):
        y = self.attention(self.norm1(x), causal=True, cache=cache)
        y, cache = y if cache is not None else (y, None)
        x = x + y
        return x + self.network(self.norm2(x)), cache


class GPT(nn.Module):
    """Predicts the next character at every position of [..., length] characters."""

    def __init__(self, vocabulary: int, width=64, heads=4, layers=2) -> None:
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, caches=None):
        x, new = self.embedding(tokens), []
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x, cache = block(x, cache)
            new.append(cache)
        logits = self.head(self.norm(x))
        return logits if caches is None else (logits, new)


def loss(model, batch):
    inputs, targets = batch
    return nn.functional.cross_entropy(model(inputs), targets)


@pb.compile
def next_token(model, tokens, caches, key, temperature=0.8):
    """Draw the next character after `tokens`; earlier ones are in the caches."""
    logits, caches = model(tokens, caches)
    key, sub = pb.random.split(key)
    return pb.random.categorical(sub, logits[-1] / temperature), caches, key


def write(model, tokenizer, prompt: str, length: int, key) -> str:
    """Continue a text by one character at a time."""
    model = pb.tree.map(lambda x: x, model).eval()
    size = len(prompt) + length
    caches = [block.attention.empty_cache((), size) for block in model.blocks]
    given, found = pb.tensor(tokenizer.encode(prompt)), []
    for _ in range(length):
        token, caches, key = next_token(model, given, caches, key)
        found.append(token)
        given = token.reshape(1)
    return prompt + tokenizer.decode([token.item() for token in found])


def train(steps=500, out=None, width=64, layers=2, context=64, every=20, progress=None):
    """Train, or continue the run in the folder `out`; return the result and the tokenizer."""
    text = pb.data.text()
    tokenizer = pb.data.CharTokenizer(text)
    windows = pb.data.TokenWindows(tokenizer.encode(text), context)
    with nn.rng(pb.random.key(0)):
        model = GPT(len(tokenizer), width, layers=layers)
    mesh = None
    if pb.distributed.process_count() > 1:
        mesh = pb.DeviceMesh(pb.distributed.process_count(), "dp")
        model.map_tensors(lambda p: p.shard(mesh, pb.P()))
    data = pb.data.DataLoader(
        windows, 16, shuffle=True, key=pb.random.key(1), drop_last=True, sharding=mesh
    )
    schedule = pb.optim.schedules.warmup(3e-3, 50, pb.optim.schedules.cosine(3e-3, 1000))
    optimizer = pb.optim.clip_by_global_norm(pb.optim.adamw(schedule, weight_decay=0.1), 1.0)
    checkpoints = None if out is None else pb.io.Checkpointer(f"{out}/checkpoints", every=every)
    result = pb.train.fit(
        model, loss, data, optimizer, steps=steps, log=out, checkpoints=checkpoints,
        key=pb.random.key(2), progress=progress,
    )  # fmt: skip
    return result, tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a GPT on a book.")
    numbers = {"steps": 500, "width": 64, "layers": 2, "context": 64, "every": 20, "write": 200}
    for name, value in numbers.items():  # a checkpoint every 20 steps; 200 characters at the end
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--out", help="folder of the run; an earlier run in it is continued")
    given = vars(parser.parse_args())
    length = given.pop("write")
    if "PULLBACK_COORDINATOR" in os.environ:  # started by `python -m pullback.distributed`
        pb.distributed.initialize()
    result, tokenizer = train(**given, progress=True)
    if given["out"] is not None:
        pb.save(f"{given['out']}/model.safetensors", result.model)
    text = write(result.model, tokenizer, "Alice ", length, pb.random.key(3)) if length else ""
    if pb.distributed.process_index() == 0:
        print(f"loss {result.history['loss'][0]:.3f} to {result.history['loss'][-1]:.3f}")
        print(text)


if __name__ == "__main__":
    main()
