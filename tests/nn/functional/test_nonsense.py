"""Every function of pb.nn.functional and pb.nn.init reports nonsense with an error of pullback."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

import pullback as pb
from pullback.errors import PullbackError

F, INIT = pb.nn.functional, pb.nn.init
NAN = float("nan")
KEY = pb.random.key(0)
X, V, T = pb.ones((3, 4)), pb.ones(4), [0, 1, 2]
SEQUENCE, IMAGE, VOLUME = pb.ones((2, 6, 4)), pb.ones((2, 6, 6, 4)), pb.ones((1, 4, 4, 4, 2))
BY_RANK = {"1": SEQUENCE, "2": IMAGE, "3": VOLUME}
SIGNS = [1, -1, 1]
NONSENSE: list[Any] = [
    "abc", "", None, object(), {"a": 1}, {1}, len, b"ab", [[1, 2], [3]], ["a"], np.array(["a"]),
    slice(2), int, (1, "b"), [], (), {}, 1j, -3, 0, 2**70, 2.5, NAN, [2.5, 1], (None, None), True,
    (1, 2, 3, 4, 5, 6, 7), [True], pb.ones((2, 2)), pb.tensor([1, 2]), pb.ones(()),
    pb.ones((0, 3)),
]  # fmt: skip


def good_arguments(name: str) -> dict[str, Any]:
    """Arguments of a call that works."""
    if name in GOOD:
        return GOOD[name]
    if name.startswith(("conv", "max_pool", "avg_pool", "lp_pool", "adaptive")):
        rank = next(c for c in name if c in BY_RANK)
        made: dict[str, Any] = {"x": BY_RANK[rank]}
        channels = BY_RANK[rank].shape[-1]
        if name.startswith("conv"):
            made["weight"] = pb.ones((2,) * int(rank) + (channels, channels))
        elif name.startswith("adaptive"):
            made["output_size"] = 2
        else:
            made["kernel_size"] = 2
        return made | ({"norm_type": 2.0} if name.startswith("lp") else {})
    return {"x": X}


GOOD: dict[str, dict[str, Any]] = {
    "linear": {"x": X, "weight": pb.ones((2, 4)), "bias": pb.ones(2)},
    "bilinear": {"x1": X, "x2": X, "weight": pb.ones((2, 4, 4))},
    "embedding": {"x": T, "weight": X}, "one_hot": {"x": T, "num_classes": 4},
    "threshold": {"x": X, "threshold": 0.5, "value": 1.0}, "prelu": {"x": X, "weight": V},
    "gumbel_softmax": {"logits": X, "key": KEY}, "rrelu": {"x": X, "training": True, "key": KEY},
    **{name: {"x": X, "key": KEY} for name in (
        "alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout")},
    "batch_norm": {"x": X, "running_mean": V, "running_var": V, "weight": V, "bias": V},
    "batch_norm_train": {"x": X, "running_mean": V, "running_var": V},
    "layer_norm": {"x": X, "normalized_shape": 4}, "rms_norm": {"x": X, "normalized_shape": 4},
    "group_norm": {"x": X, "num_groups": 2}, "instance_norm": {"x": SEQUENCE},
    "local_response_norm": {"x": X, "size": 2},
    "scaled_dot_product_attention": {
        "query": X, "key": X, "value": X, "dropout_p": 0.5, "dropout_key": KEY},
    "split_heads": {"x": X, "num_heads": 2}, "merge_heads": {"x": SEQUENCE},
    "causal_mask": {"length": 3}, "padding_mask": {"lengths": T, "size": 3},
    "sinusoidal_embedding": {"positions": T, "depth": 4},
    **{name: {"x": X, "target": T} for name in ("cross_entropy", "nll_loss", "multi_margin_loss")},
    **{name: {"x": X, "target": X} for name in (
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "mse_loss", "l1_loss",
        "smooth_l1_loss", "huber_loss", "poisson_nll_loss", "hinge_embedding_loss",
        "soft_margin_loss", "multilabel_soft_margin_loss")},
    "multilabel_margin_loss": {"x": X, "target": [[0, 1, -1, -1]] * 3},
    "gaussian_nll_loss": {"x": X, "target": X, "var": X},
    "cosine_embedding_loss": {"x1": X, "x2": X, "target": SIGNS},
    "margin_ranking_loss": {"x1": X[:, 0], "x2": X[:, 0], "target": SIGNS},
    "triplet_margin_loss": {"anchor": X, "positive": X, "negative": X},
    "cosine_similarity": {"x": X, "y": X}, "pairwise_distance": {"x": X, "y": X},
    "ctc_loss": {"log_probs": pb.log(pb.full((4, 2, 3), 1 / 3)), "targets": [[1, 2], [2, 1]],
                 "input_lengths": [4, 4], "target_lengths": [2, 1]},
    "interpolate": {"x": IMAGE, "size": 3},
    "grid_sample": {"x": IMAGE, "grid": pb.zeros((2, 1, 1, 2))},
    "affine_grid": {"theta": pb.ones((1, 2, 3)), "size": (1, 2, 2, 3)},
    "pixel_shuffle": {"x": IMAGE, "upscale_factor": 2},
    "pixel_unshuffle": {"x": IMAGE, "downscale_factor": 2},
    "channel_shuffle": {"x": X, "groups": 2}, "unfold": {"x": IMAGE, "kernel_size": 2},
    "fold": {"x": pb.ones((1, 4, 4)), "output_size": 3, "kernel_size": 2},
    "pad": {"x": X, "pad": (1, 1)},
    "calculate_gain": {"nonlinearity": "relu"}, "fans": {"shape": (2, 3)},
    "zeros": {"shape": 2}, "ones": {"shape": 2}, "constant": {"shape": 2, "value": 1.0},
    "eye": {"shape": (2, 3)}, "dirac": {"shape": (2, 2, 2)},
    "sparse": {"key": KEY, "shape": (2, 3), "sparsity": 0.5},
    **{name: {"key": KEY, "shape": (2, 3)} for name in (
        "uniform", "normal", "truncated_normal", "xavier_uniform", "xavier_normal",
        "kaiming_uniform", "kaiming_normal", "lecun_uniform", "lecun_normal", "orthogonal")},
}  # fmt: skip


def test_nonsense_is_refused():
    wrong = []
    with pb.config(engine="reference", precision_warnings=False):
        for owner in (F, INIT):
            for name in owner.__all__:
                f = getattr(owner, name)
                if isinstance(f, type):
                    continue
                good = good_arguments(name)
                pb.evaluate(f(**good)) if name not in ("fans", "calculate_gain") else f(**good)
                for parameter in inspect.signature(f).parameters:
                    for value in NONSENSE:
                        try:
                            with np.errstate(all="ignore"):
                                result = f(**{**good, parameter: value})
                                if isinstance(result, pb.Tensor):
                                    assert result.size < 2**20
                                    result.numpy()
                        except PullbackError:
                            pass
                        except Exception as error:
                            wrong.append(f"{name}({parameter}={value!r}): {error!r}"[:150])
    assert not wrong, "\n".join(wrong)
