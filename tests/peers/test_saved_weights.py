"""Files that PyTorch and Hugging Face write are read here, and ours are read there."""

from __future__ import annotations

import numpy as np
import pytest
from gpt2_names import HEADS, LAYERS, LENGTH, WIDTH, WORDS, gpt2_name, model, our_forward

import pullback as pb

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("safetensors.torch")

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64",
]  # fmt: skip


def test_tensors_of_every_dtype_go_both_ways(tmp_path):
    given = {n: torch.arange(6).reshape(2, 3).to(getattr(torch, n)) for n in DTYPES}
    theirs.save_file(given, tmp_path / "theirs", metadata={"format": "pt"})
    found = pb.load(tmp_path / "theirs")
    for name, x in given.items():
        assert found[name].tolist() == x.tolist() and found[name].dtype is getattr(pb, name)
    pb.save(tmp_path / "ours", {"deep": [found, 1.5]})
    again = theirs.load_file(tmp_path / "ours")
    assert all(torch.equal(again[f"deep.0.{name}"], x) for name, x in given.items())


def test_a_module_has_the_names_of_its_torch_original(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    theirs.save_file(net.state_dict(), tmp_path / "net")
    mine = pb.load(tmp_path / "net", like=pb.nn.Sequential(pb.nn.Linear(3, 4), pb.nn.Linear(4, 2)))
    x = np.ones(3, np.float32)
    wanted = net(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(mine(pb.tensor(x)).numpy(), wanted, rtol=1e-5, atol=1e-6)
    pb.save(tmp_path / "mine", mine)
    net.load_state_dict(theirs.load_file(tmp_path / "mine"))


def test_gpt2_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS
    )
    original = transformers.GPT2LMHeadModel(config).eval()
    original.save_pretrained(tmp_path)

    def name(ours):
        key = gpt2_name(ours)
        key = key if isinstance(key, tuple) else (key, lambda x: x)
        return f"transformer.{key[0]}", key[1]

    found = pb.load(tmp_path / "model.safetensors", like=model(), keys=name)
    words = np.array([3, 1, 4, 1, 5, 9])
    with torch.no_grad():
        wanted = original(torch.from_numpy(words)[None]).logits[0].numpy()
    got = our_forward(found, pb.tensor(words)).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
