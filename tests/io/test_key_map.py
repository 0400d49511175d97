"""Files of other libraries, with names of their own: GPT-2 as Hugging Face writes it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gpt2_names import (
    WIDTH,
    WORDS,
    Linear,
    gpt2_name,
    gpt2_weights,
    model,
    our_forward,
    their_forward,
)
from safetensors import numpy as official

import pullback as pb
from pullback.errors import ArgumentError, DamagedFile


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
    official.save_file({names[9]: weights[names[9]]}, tmp_path / "model-1.safetensors")
    with pytest.raises(DamagedFile, match="two of its files have the same tensor"):
        pb.load(index)
    for text in ("{}", "[", '{"weight_map": {"a": "../x"}}'):
        index.write_text(text)
        with pytest.raises(DamagedFile, match=r"no index of a model|other folders"):
            pb.load(index)
