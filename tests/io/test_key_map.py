"""Files of other libraries, with names of their own: GPT-2 as Hugging Face writes it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors import numpy as official

import pullback as pb
from pullback.errors import ArgumentError, DamagedFile

WIDTH, HEADS, WORDS, LENGTH, LAYERS = 8, 2, 11, 6, 2
RNG = np.random.default_rng(0)


class Linear(NamedTuple):
    weight: Any  # of shape (out, in), as in PyTorch
    bias: Any


def gpt2_weights():
    """Weights under the names of GPT-2: Conv1D stores (in, out), the head is the embedding."""
    made = {"wte.weight": (WORDS, WIDTH), "wpe.weight": (LENGTH, WIDTH)}
    for i in range(LAYERS):
        made |= {
            f"h.{i}.ln_1.weight": (WIDTH,), f"h.{i}.ln_1.bias": (WIDTH,),
            f"h.{i}.attn.c_attn.weight": (WIDTH, 3 * WIDTH),
            f"h.{i}.attn.c_attn.bias": (3 * WIDTH,),
            f"h.{i}.attn.c_proj.weight": (WIDTH, WIDTH), f"h.{i}.attn.c_proj.bias": (WIDTH,),
            f"h.{i}.attn.bias": (1, 1, LENGTH, LENGTH),
            f"h.{i}.ln_2.weight": (WIDTH,), f"h.{i}.ln_2.bias": (WIDTH,),
            f"h.{i}.mlp.c_fc.weight": (WIDTH, 4 * WIDTH), f"h.{i}.mlp.c_fc.bias": (4 * WIDTH,),
            f"h.{i}.mlp.c_proj.weight": (4 * WIDTH, WIDTH), f"h.{i}.mlp.c_proj.bias": (WIDTH,),
        }  # fmt: skip
    made |= {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    return {name: RNG.normal(0, 0.2, shape).astype(np.float32) for name, shape in made.items()}


def model():
    """Our model: q, k and v apart, weights of shape (out, in)."""
    zeros = pb.zeros

    def block():
        square = Linear(zeros((WIDTH, WIDTH)), zeros(WIDTH))
        return {
            "norm1": {"scale": zeros(WIDTH), "shift": zeros(WIDTH)},
            "attention": {"q": square, "k": square, "v": square, "out": square},
            "norm2": {"scale": zeros(WIDTH), "shift": zeros(WIDTH)},
            "up": Linear(zeros((4 * WIDTH, WIDTH)), zeros(4 * WIDTH)),
            "down": Linear(zeros((WIDTH, 4 * WIDTH)), zeros(WIDTH)),
        }

    return {
        "tokens": zeros((WORDS, WIDTH)), "positions": zeros((LENGTH, WIDTH)),
        "blocks": [pb.tree.map(lambda x: x + 0, block()) for _ in range(LAYERS)],
        "norm": {"scale": zeros(WIDTH), "shift": zeros(WIDTH)},
        "head": zeros((WORDS, WIDTH)), "temperature": 1.0,
    }  # fmt: skip


PARTS = {"tokens": "wte.weight", "positions": "wpe.weight", "head": "wte.weight",
         "norm1": "ln_1", "norm2": "ln_2", "norm": "ln_f", "scale": "weight", "shift": "bias",
         "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj", "blocks": "h"}  # fmt: skip


def gpt2_name(name):
    """The name in the file for one of ours, with what is done to the tensor."""
    steps = name.split(".")
    if "attention" in steps and steps[3] in "qkv":
        at = slice("qkv".index(steps[3]) * WIDTH, ("qkv".index(steps[3]) + 1) * WIDTH)
        theirs = f"h.{steps[1]}.attn.c_attn.{steps[4]}"
        return theirs, lambda x: x.T[at] if x.ndim == 2 else x[at]
    theirs = ".".join([PARTS.get(s, s) for s in steps if s != "attention"])
    turned = steps[-1] == "weight"
    return (theirs, pb.transpose) if turned else theirs


def norm(x, p, scale, shift):
    x = x - x.mean(-1, keepdims=True)
    return x / p.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + shift


def attend(q, k, v, p):
    def heads(x):
        return p.permute_dims(p.reshape(x, (LENGTH, HEADS, -1)), (1, 0, 2))

    scores = heads(q) @ p.permute_dims(heads(k), (0, 2, 1)) / (WIDTH / HEADS) ** 0.5
    seen = p.asarray(np.tri(LENGTH, dtype=bool))
    scores = p.where(seen, scores, -1e30)
    weights = p.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True)) @ heads(v)
    return p.reshape(p.permute_dims(mixed, (1, 0, 2)), (LENGTH, WIDTH))


def gelu(x, p):
    return 0.5 * x * (1 + p.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def our_forward(m, words):
    def linear(x, layer):
        return x @ layer.weight.T + layer.bias

    x = m["tokens"][words] + m["positions"]
    for b in m["blocks"]:
        y, a = norm(x, pb, **b["norm1"]), b["attention"]
        mixed = attend(linear(y, a["q"]), linear(y, a["k"]), linear(y, a["v"]), pb)
        x = x + linear(mixed, a["out"])
        x = x + linear(gelu(linear(norm(x, pb, **b["norm2"]), b["up"]), pb), b["down"])
    return norm(x, pb, **m["norm"]) @ m["head"].T


def their_forward(w, words):
    """GPT-2 with its own names, in NumPy."""
    x = w["wte.weight"][words] + w["wpe.weight"]

    def conv(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    for i in range(LAYERS):
        y = norm(x, np, w[f"h.{i}.ln_1.weight"], w[f"h.{i}.ln_1.bias"])
        q, k, v = np.split(conv(y, f"h.{i}.attn.c_attn"), 3, -1)
        x = x + conv(attend(q, k, v, np), f"h.{i}.attn.c_proj")
        y = norm(x, np, w[f"h.{i}.ln_2.weight"], w[f"h.{i}.ln_2.bias"])
        x = x + conv(gelu(conv(y, f"h.{i}.mlp.c_fc"), np), f"h.{i}.mlp.c_proj")
    return norm(x, np, w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].T


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpt2") / "model.safetensors"
    weights = gpt2_weights()
    official.save_file(weights, path, metadata={"format": "pt"})
    return path, weights


def test_gpt2_computes_what_its_weights_say(gpt2):
    path, weights = gpt2
    m = pb.load(path, like=model(), keys=gpt2_name)
    assert m["temperature"] == 1.0 and type(m["blocks"][1]["up"]) is Linear
    assert m["blocks"][1]["attention"]["k"].weight.tolist() == (
        weights["h.1.attn.c_attn.weight"][:, WIDTH : 2 * WIDTH].T.tolist()
    )
    words = np.array([3, 1, 4, 1, 5, 9])
    with pb.config(engine="reference"):
        got = our_forward(m, pb.tensor(words)).numpy()
    np.testing.assert_allclose(got, their_forward(weights, words), rtol=2e-5, atol=2e-6)


def test_a_foreign_file_is_a_flat_dict(gpt2):
    path, weights = gpt2
    found = pb.load(path)
    assert set(found) == set(weights) and found["h.0.ln_1.bias"].dtype is pb.float32
    nested = pb.load(path, like={"wte": {"weight": pb.zeros((WORDS, WIDTH))}}, keys={})
    assert nested["wte"]["weight"].tolist() == weights["wte.weight"].tolist()
    flat = {name: pb.zeros(x.shape) for name, x in weights.items()}
    assert pb.load(path, like=flat)["ln_f.bias"].tolist() == weights["ln_f.bias"].tolist()


def test_names_that_do_not_fit(gpt2):
    path, _ = gpt2
    like = {"wte": {"weight": pb.zeros((WORDS, WIDTH))}}
    cases = [
        (like, None, "like has no place for"),
        (like, {"wte.weight": "wtf"}, "['wte']['weight']: the file has no tensor 'wtf'"),
        (like, {"wt.weight": "wte.weight"}, "keys has 'wt.weight', which like does not have"),
        (like, {"wte.weight": ("wte.weight", pb.transpose)}, "has f32[8,11] after the function"),
        (like, {"wte.weight": 3}, "keys must give a name, a name with a function, or None"),
        (like, 3, "keys must be a dict or a function, got int 3"),
        (None, {}, "keys needs like"),
        ({"x": pb.zeros(3)}, {"x": "ln_f.bias"}, "['x']: the file has f32[8], like has f32[3]"),
    ]  # fmt: skip
    for given, keys, text in cases:
        with pytest.raises(ArgumentError) as error:
            pb.load(path, like=given, keys=keys)
        assert text in str(error.value)
    with pytest.raises(ArgumentError, match=r"Close to it: wte\.weight"):
        pb.load(path, like=like, keys={"wte.weight": "wtf.weight"})


def test_several_names_and_none(gpt2):
    path, weights = gpt2
    names = ("ln_f.weight", "ln_f.bias")
    like = {"both": pb.zeros((2, WIDTH)), "kept": pb.full(2, 7.0), "array": np.zeros(WIDTH, "f4")}
    keys = {"both": (names, lambda a, b: pb.stack([a, b])), "kept": None,
            "array": ("ln_f.bias", lambda x: -x)}  # fmt: skip
    found = pb.load(path, like=like, keys=keys)
    assert found["both"].tolist() == [weights[n].tolist() for n in names]
    assert found["kept"] is like["kept"]
    assert found["array"].tolist() == (-weights["ln_f.bias"]).tolist()


def test_a_file_of_pullback_is_loaded_by_name_too(tmp_path):
    path = tmp_path / "tree"
    pb.save(path, {"a": {"w": pb.ones(2), "n": 3}, "old": pb.zeros(1)})
    like = {"w": pb.zeros(2), "n": 0, "new": 0}  # two leaves are the same object
    found = pb.load(path, like=like, keys={"w": "a.w", "n": "a.n"})
    assert found["w"].tolist() == [1, 1] and found["n"] == 3 and found["new"] == 0


def test_a_model_in_several_files(tmp_path, gpt2):
    weights = gpt2[1]
    names = sorted(weights)
    halves = {"model-1.safetensors": names[:9], "model-2.safetensors": names[9:]}
    for file, part in halves.items():
        official.save_file({n: weights[n] for n in part}, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    where = {n: file for file, part in halves.items() for n in part}
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))
    found = pb.load(index)
    assert set(found) == set(weights)
    assert all(found[n].tolist() == weights[n].tolist() for n in names)
    for text in ("{}", "[", '{"weight_map": {"a": "../x"}}'):
        index.write_text(text)
        with pytest.raises(DamagedFile, match=r"no index of a model|other folders"):
            pb.load(index)
