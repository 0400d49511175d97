"""A program as a user writes it; `mypy --strict` must accept it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, assert_type

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F
from pullback.typing import ArrayLike, Axis, DTypeLike, Shape, Tree

Params = dict[str, pb.Tensor]


# -- tensors and functions ------------------------------------------------------------------------


def standardize(x: ArrayLike, axis: Axis = None) -> pb.Tensor:
    t = pb.asarray(x)
    return (t - pb.mean(t, axis, keepdims=True)) / (pb.std(t, axis, keepdims=True) + 1e-6)


def filled(shape: Shape, value: float, dtype: DTypeLike = "float32") -> pb.Tensor:
    return pb.full(shape, value, dtype)


def tensors() -> None:
    x = pb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = pb.asarray(np.eye(2, dtype=np.float32))
    assert_type(x, pb.Tensor)
    assert_type(x + 1, pb.Tensor)
    assert_type(1 + x, pb.Tensor)
    assert_type(2.0 / x, pb.Tensor)
    assert_type(x - w, pb.Tensor)
    assert_type(x**2, pb.Tensor)
    assert_type(2**x, pb.Tensor)
    assert_type(-x, pb.Tensor)
    assert_type(abs(x), pb.Tensor)
    assert_type(x @ w, pb.Tensor)
    assert_type(x // 2 % 3, pb.Tensor)
    assert_type(x > 0, pb.Tensor)
    assert_type(x == w, pb.Tensor)
    assert_type((x > 0) & ~(x < 1), pb.Tensor)
    assert_type(x[0], pb.Tensor)
    assert_type(x[..., None, 1:], pb.Tensor)
    assert_type(x[x > 0], pb.Tensor)
    assert_type(x[[0, 1], np.array([0, 1])], pb.Tensor)
    assert_type(x.at[0].set(1.0), pb.Tensor)
    w[0] = 1.0
    w += 1
    assert_type(w, pb.Tensor)
    assert_type(list(x), list[pb.Tensor])

    assert_type(x.T, pb.Tensor)
    assert_type(x.exp(), pb.Tensor)
    assert_type(x.sum(), pb.Tensor)
    assert_type(x.sum(axis=(0, 1), keepdims=True), pb.Tensor)
    assert_type(x.max(-1), pb.Tensor)
    assert_type(x.argmax(axis=0), pb.Tensor)
    assert_type(x.mean(axis=0).sqrt(), pb.Tensor)
    assert_type(x.reshape(4), pb.Tensor)
    assert_type(x.reshape((2, -1)).transpose(1, 0), pb.Tensor)
    assert_type(x.astype(pb.float64), pb.Tensor)
    assert_type(x.astype("int32").astype(np.int8).astype(float), pb.Tensor)
    assert_type(x.detach(), pb.Tensor)
    assert_type(x.nonzero(), tuple[pb.Tensor, ...])
    assert_type(x.grad, pb.Tensor | None)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.dtype, pb.DType)
    assert_type(float(x.detach().sum()), float)
    assert_type(bool((x > 0).all()), bool)
    (x * x).sum().backward()

    assert_type(pb.exp(x), pb.Tensor)
    assert_type(pb.exp(x=1.0), pb.Tensor)
    assert_type(pb.maximum([1, 2], 3), pb.Tensor)
    assert_type(pb.sum([[1, 2], [3, 4]], axis=0), pb.Tensor)
    assert_type(pb.max(x, axis=-1, keepdims=True), pb.Tensor)
    assert_type(pb.where(x > 0, x, 0.0), pb.Tensor)
    assert_type(pb.concat([x, w], axis=1), pb.Tensor)
    assert_type(pb.stack([x.sum(), 1.0]), pb.Tensor)
    assert_type(pb.split(x, 2), list[pb.Tensor])
    assert_type(pb.top_k(x, 1).values, pb.Tensor)
    assert_type(pb.einsum("ij,jk->ik", x, w), pb.Tensor)
    assert_type(pb.arange(3), pb.Tensor)
    assert_type(pb.zeros((2, 3), dtype=pb.bool), pb.Tensor)
    assert_type(pb.finfo(pb.float32).eps, float)
    assert_type(pb.result_type(x, 1.0), pb.DType)
    assert_type(standardize([1.0, 2.0]), pb.Tensor)
    assert_type(filled(3, 1.0), pb.Tensor)
    with pb.no_grad(), pb.config(engine="reference"):
        pb.evaluate(x)


# -- transforms -----------------------------------------------------------------------------------


def loss(params: Params, x: pb.Tensor, y: pb.Tensor, scale: float = 1.0) -> pb.Tensor:
    hidden = pb.tanh(x @ params["w1"] + params["b1"])
    scores = hidden @ params["w2"]
    return -(pb.log_softmax(scores) * pb.one_hot(y, 10)).sum() * scale


def square(x: pb.Tensor) -> pb.Tensor:
    return x * x


def transforms(params: Params, x: pb.Tensor, y: pb.Tensor) -> None:
    grads: Params = pb.grad(loss)(params, x, y, scale=2.0)
    value, both = pb.value_and_grad(loss)(params, x, y)
    assert_type(value, pb.Tensor)
    gradients: Params = both

    compiled = pb.compile(loss)
    assert_type(compiled(params, x, y), pb.Tensor)
    assert_type(compiled(params, x, y, scale=0.5), pb.Tensor)
    assert_type(pb.compile(static_argnames="scale")(loss)(params, x, y), pb.Tensor)

    v = x[:, :2]
    assert_type(pb.vmap(square)(v), pb.Tensor)
    assert_type(pb.checkpoint(square)(v), pb.Tensor)
    jacobian: pb.Tensor = pb.jacobian(square)(v)
    hessian: pb.Tensor = pb.hessian(lambda v: (v * v).sum())(v)

    out, pull = pb.vjp(square, v)
    assert_type(out, pb.Tensor)
    (cotangent,) = pull(out)
    out, tangent = pb.jvp(square, (v,), (v,))
    assert_type(out, pb.Tensor)

    def body(carry: pb.Tensor, row: pb.Tensor) -> tuple[pb.Tensor, pb.Tensor]:
        return carry + row, carry

    last, rows = pb.scan(body, pb.zeros(2), v)
    assert_type(last, pb.Tensor)
    total = pb.fori_loop(0, 3, lambda i, s: s + 1, pb.zeros(2))
    chosen = pb.cond(v.sum() > 0, square, square, v)
    pb.evaluate(grads, gradients, jacobian, hessian, cotangent, tangent, rows, total, chosen)


@pb.compile
def step(params: Params, x: pb.Tensor, y: pb.Tensor, rate: float) -> tuple[Params, pb.Tensor]:
    value, grads = pb.value_and_grad(loss)(params, x, y)
    return {name: p - rate * grads[name] for name, p in params.items()}, value


def train(x: pb.Tensor, y: pb.Tensor) -> Params:
    params = initial(pb.random.key(0))
    for _ in range(3):
        params, value = step(params, x, y, 0.1)
        assert_type(value, pb.Tensor)
    return params


# -- random numbers, optimizers, trees ------------------------------------------------------------


def initial(key: pb.Tensor) -> Params:
    first, second = pb.random.split(key)
    w1 = pb.random.normal(first, (784, 32)) * 0.1
    assert_type(w1, pb.Tensor)
    return {"w1": w1, "b1": pb.zeros(32), "w2": pb.random.uniform(second, (32, 10))}


def optimize(params: Params, x: pb.Tensor, y: pb.Tensor) -> Tree:
    adam = pb.optim.adam(1e-3)
    state = adam.init(params)
    grads = pb.grad(loss)(params, x, y)
    params, state = adam.update(grads, state, params)
    rate = pb.optim.schedules.warmup(1e-3, 10, then=pb.optim.schedules.cosine(1e-3, 90))
    rule = pb.optim.clip_by_global_norm(pb.optim.adamw(lr=rate, mask=lambda path: "w" in path), 1.0)
    assert_type(pb.optim.clip_by_value(params, 1.0), Params)
    assert_type(rule, pb.optim.ChainRule)
    optimizer: pb.optim.Optimizer = pb.optim.Muon(params, lr=0.02)
    optimizer.learning_rate = rate
    optimizer.load_state_dict(optimizer.state_dict())
    found = pb.optim.lbfgs().minimize(lambda p: loss(p, x, y), params)
    assert_type(found, pb.optim.LBFGSResult)
    leaves: list[Any] = pb.tree.leaves(params)
    pb.evaluate(leaves)
    return pb.tree.map(lambda p: p * 0.5, params)


class Rows(pb.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"x": index}


def batches(path: str) -> int:
    train, _ = pb.data.random_split(Rows(), (0.5, 0.5), pb.random.key(0))
    loader = pb.data.DataLoader(train.map(str), 2, shuffle=True, key=pb.random.key(0), workers=0)
    for batch in loader:
        print(batch)
    loader.load_state_dict(loader.state_dict())
    columns: dict[str, np.ndarray[Any, Any]] = pb.data.read_csv(path)
    images: np.ndarray[Any, Any] = pb.data.digits().images
    assert_type(pb.data.CharTokenizer("text").decode([0]), str)
    return len(loader) + loader.epoch + len(columns) + len(images)


# -- networks, training, files --------------------------------------------------------------------


class Classifier(nn.Module):
    def __init__(self, sizes: Sequence[int], classes: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(m, n) for m, n in pairwise(sizes)])
        self.norm = nn.BatchNorm1d(sizes[-1])
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(sizes[-1], classes)
        self.scale = nn.Parameter([1.0])
        self.register_buffer("seen", 0, persistent=False)

    def forward(self, x: pb.Tensor) -> pb.Tensor:
        for block in self.blocks:
            x = F.gelu(block(x))
        y: pb.Tensor = self.head(self.drop(self.norm(x)))
        return y * self.scale


Batch = tuple[pb.Tensor, pb.Tensor]


def classifier_loss(model: Classifier, batch: Batch) -> tuple[pb.Tensor, Classifier]:
    x, y = batch
    loss = F.cross_entropy(model(x), y)
    assert_type(loss, pb.Tensor)
    return loss, model


def train_as_object(model: Classifier, batch: Batch) -> float:
    optimizer = pb.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    optimizer.zero_grad()
    loss, _ = classifier_loss(model, batch)
    loss.backward()
    optimizer.step()
    assert_type(model.eval(), Classifier)
    assert_type(model.head.freeze(), nn.Linear)
    assert_type(model.head.weight, pb.Tensor)
    assert_type(model.state_dict(), dict[str, pb.Tensor])
    for name, child in model.named_children():
        print(name, child.training)
    return float(loss)


def train_as_tree(model: Classifier, batch: Batch) -> Classifier:
    rule = pb.optim.clip_by_global_norm(pb.optim.adamw(1e-3), 1.0)
    state = rule.init(model)
    (_, model), grads = pb.value_and_grad(classifier_loss, has_aux=True)(model, batch)
    new, state = rule.update(grads, state, model)
    assert_type(new, Classifier)
    return new.to(pb.bfloat16)


def whole_run(model: Classifier, batches: list[Batch], folder: str) -> nn.Module:
    def loss(model: Classifier, batch: Batch) -> pb.Tensor:
        return classifier_loss(model, batch)[0]

    policy = pb.train.Policy(compute="bfloat16")
    result = pb.train.fit(
        model, loss, batches, pb.optim.sgd(0.1), epochs=2, policy=policy,
        checkpoints=pb.io.Checkpointer(folder), key=pb.random.key(0),
    )  # fmt: skip
    losses: list[float] = list(result.history["loss"])
    pb.save(f"{folder}/model", result.model)
    loaded: Classifier = pb.load(f"{folder}/model", like=model)
    loaded.load_state_dict(pb.load(f"{folder}/model"), strict=False)
    loop = pb.train.TrainingLoop(model, loss, pb.optim.sgd(0.1))
    assert_type(loop.step(batches[0]), dict[str, pb.Tensor])
    assert_type(loop.evaluate(batches), dict[str, float])
    print(len(losses), model.summary(batches[0][0]), model.num_parameters())
    return loaded


# -- programs as text, sharding -------------------------------------------------------------------


def programs(text: str) -> None:
    module = pb.ir.parse(text)
    assert_type(module, pb.ir.Module)
    gradient = pb.ir.autodiff(module)
    assert_type(gradient, pb.ir.Gradient)
    outputs = pb.ir.run(module, {"x": np.ones(3)})
    assert_type(outputs[0].shape[0], Any)
    function: Callable[..., Any] = pb.ir.to_function(module)
    pb.evaluate(function(pb.ones(3)))


def sharded(x: pb.Tensor) -> None:
    mesh = pb.DeviceMesh((2, 4), ("dp", "tp"))
    y = x.shard(mesh, pb.P("dp", None))
    assert_type(y, pb.Tensor)
    assert_type(y.sharding, pb.Sharding | None)
    assert_type(pb.reshard(y, pb.P(None, "tp")), pb.Tensor)
    assert_type(pb.shard_map(square, mesh, pb.P("dp"), pb.P("dp"))(y), pb.Tensor)


def failing() -> None:
    try:
        pb.ones(2) + pb.ones(3)
    except pb.errors.ShapeError as error:
        assert_type(error.op, str | None)
