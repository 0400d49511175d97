"""The functions of pb.nn.functional agree with PyTorch's, in values and gradients (f64).

A case names the function, the arguments of PyTorch's call and, where they differ, those of ours.
Arrays of floats get gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb

torch = pytest.importorskip("torch")
T = torch.nn.functional
F = pb.nn.functional
RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("default")  # those of PyTorch are its own


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, shape)


def agree(name: str, theirs: Any, ours: Any, *arrays: np.ndarray) -> None:
    """Compare the values of two functions of the same arrays, and the gradients of a weighted
    sum of the results."""
    rtol = 1e-7 if name.startswith("hards") else 1e-9  # there, 1/6 is a number of f32
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    there = [torch.tensor(a, requires_grad=i in floats) for i, a in enumerate(arrays)]
    y = theirs(*there)
    weights = np.cos(np.arange(max(y.numel(), 1)))[: y.numel()].reshape(y.shape)
    wanted = torch.autograd.grad((y * torch.tensor(weights)).sum(), [there[i] for i in floats])

    def loss(*xs: Any) -> Any:
        z = ours(*xs)
        return (z * weights).sum(), z

    made = [pb.tensor(a) for a in arrays]
    (_, z), found = pb.value_and_grad(loss, argnums=tuple(floats), has_aux=True)(*made)
    assert z.shape == tuple(y.shape), name
    assert z.dtype is pb.float64, name
    np.testing.assert_allclose(z.numpy(), y.detach().numpy(), rtol, 1e-10, err_msg=name)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol, 1e-10, err_msg=f"grad of {name}")


def check(cases: list) -> None:
    with pb.config(engine="reference"):
        for name, theirs, ours, *arrays in cases:
            agree(name, theirs, ours, *arrays)


def same(name: str, *arrays: np.ndarray, ours: dict | None = None, **options: Any) -> tuple:
    """A case of the same call in both libraries, plus the options that only ours has."""

    def call(owner: Any, more: dict) -> Any:
        return lambda *xs: getattr(owner, name)(*xs, **options, **more)

    shown = f"{name} {options}"
    return shown, call(T, {}), call(F, ours or {}), *arrays


FIRST = {"layout": "NCHW"}
TORCH = {"layout": "NCHW", "filter_layout": "OIHW"}


def test_linear_maps():
    check([
        same("linear", real(3, 4), real(5, 4), real(5)),
        same("linear", real(2, 3, 4), real(5, 4)),
        same("linear", real(4), real(4)),
        same("bilinear", real(3, 4), real(3, 5), real(2, 4, 5), real(2)),
        same("embedding", np.array([[0, 2], [2, 4]]), real(5, 3), padding_idx=2),
        same("embedding", np.array([1, -2 % 5]), real(5, 3), padding_idx=-2),
    ])  # fmt: skip


def test_convolutions():
    x1, x2, x3 = real(2, 4, 9), real(2, 4, 7, 8), real(1, 2, 4, 5, 3)
    check([
        same("conv1d", x1, real(6, 4, 3), real(6), ours=TORCH, stride=2, padding=1),
        same("conv2d", x2, real(6, 4, 3, 2), real(6), ours=TORCH),
        same("conv2d", x2, real(6, 2, 3, 2), ours=TORCH, groups=2, dilation=(1, 2), stride=(2, 1)),
        same("conv2d", x2, real(3, 4, 3, 4), ours=TORCH, padding="same"),
        same("conv2d", x2, real(3, 4, 3, 4), ours=TORCH, padding="valid"),
        same("conv2d", x2[0], real(3, 4, 3, 4), ours=TORCH, padding=(2, 1)),
        same("conv3d", x3, real(4, 2, 2, 2, 2), real(4), ours=TORCH, padding=1),
        same("conv_transpose1d", x1, real(4, 3, 3), real(3), ours=TORCH, stride=2, padding=1,
             output_padding=1),
        same("conv_transpose2d", x2, real(4, 3, 3, 2), real(6), ours=TORCH, stride=2, groups=2,
             dilation=2, padding=(1, 2), output_padding=(1, 0)),
        same("conv_transpose2d", x2[0], real(4, 3, 1, 1), ours=TORCH, padding=1),
        same("conv_transpose3d", x3, real(2, 4, 2, 2, 2), real(4), ours=TORCH, stride=(1, 2, 2)),
        ("NHWC", lambda x, w: T.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)).permute(
            0, 2, 3, 1), F.conv2d, real(2, 5, 6, 3), real(3, 2, 3, 4)),
    ])  # fmt: skip


def test_pooling():
    x1, x2, x3 = real(2, 3, 9), real(2, 3, 7, 8), real(1, 2, 5, 6, 7)
    check([
        same("max_pool1d", x1, ours=FIRST, kernel_size=3, stride=2, padding=1),
        same("max_pool2d", x2, ours=FIRST, kernel_size=(3, 2), ceil_mode=True),
        same("max_pool2d", x2, ours=FIRST, kernel_size=3, stride=2, padding=1, ceil_mode=True),
        same("max_pool2d", x2[0], ours=FIRST, kernel_size=2, dilation=2, stride=1),
        same("max_pool3d", x3, ours=FIRST, kernel_size=2, stride=(1, 2, 3), padding=(1, 0, 1)),
        same("avg_pool1d", x1, ours=FIRST, kernel_size=4, stride=3, padding=2, ceil_mode=True),
        same("avg_pool2d", x2, ours=FIRST, kernel_size=3, stride=2, padding=1, ceil_mode=True),
        same("avg_pool2d", x2, ours=FIRST, kernel_size=3, padding=1, count_include_pad=False),
        same("avg_pool2d", x2, ours=FIRST, kernel_size=3, stride=2, padding=1, ceil_mode=True,
             count_include_pad=False),
        same("avg_pool2d", x2[0], ours=FIRST, kernel_size=(2, 3), divisor_override=5),
        same("avg_pool3d", x3, ours=FIRST, kernel_size=2, ceil_mode=True),
        same("lp_pool1d", np.abs(x1), ours=FIRST, norm_type=3, kernel_size=4, ceil_mode=True),
        same("lp_pool2d", x2, ours=FIRST, norm_type=2, kernel_size=3, stride=2),
        same("lp_pool3d", np.abs(x3), ours=FIRST, norm_type=1.5, kernel_size=2),
        same("adaptive_avg_pool1d", x1, ours=FIRST, output_size=4),
        same("adaptive_avg_pool2d", x2, ours=FIRST, output_size=(3, None)),
        same("adaptive_avg_pool2d", x2, ours=FIRST, output_size=(7, 4)),
        same("adaptive_avg_pool3d", x3, ours=FIRST, output_size=(7, 1, 3)),
        same("adaptive_max_pool1d", x1, ours=FIRST, output_size=4),
        same("adaptive_max_pool2d", x2, ours=FIRST, output_size=(3, 2)),
        same("adaptive_max_pool3d", x3, ours=FIRST, output_size=(2, 3, 4)),
    ])  # fmt: skip
    for options in (
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": (2, 3), "stride": 1, "dilation": (2, 1)},
    ):
        _, wanted = T.max_pool2d(torch.tensor(x2), return_indices=True, **options)
        _, found = F.max_pool2d(x2, return_indices=True, layout="NCHW", **options)
        assert found.tolist() == wanted.tolist()


MEAN, VAR = torch.tensor(real(6)), torch.tensor(positive(6))


def test_normalization():
    x, w = real(4, 6, 3, 5), real(6)
    check([
        ("batch_norm", lambda x, w, b: T.batch_norm(x, MEAN, VAR, w, b, eps=1e-3),
         lambda x, w, b: F.batch_norm(x, MEAN.numpy(), VAR.numpy(), w, b, eps=1e-3, layout="NCHW"),
         x, w, real(6)),
        ("train", lambda x, w, b: T.batch_norm(x, None, None, w, b, True),
         lambda x, w, b: F.batch_norm(x, None, None, w, b, True, layout="NCHW"), x, w, real(6)),
        ("train", lambda x: T.batch_norm(x, None, None, training=True),
         lambda x: F.batch_norm(x, training=True), real(5, 3)),
        ("layer_norm", lambda x, w, b: T.layer_norm(x, (3, 5), w, b),
         lambda x, w, b: F.layer_norm(x, (3, 5), w, b), x, real(3, 5), real(3, 5)),
        same("layer_norm", x, normalized_shape=(5,), eps=0.1),
        ("rms_norm", lambda x, w: T.rms_norm(x, (5,), w),
         lambda x, w: F.rms_norm(x, 5, w), x, real(5)),
        same("rms_norm", x, normalized_shape=(3, 5), eps=0.1),
        ("group_norm", lambda x, w, b: T.group_norm(x, 3, w, b),
         lambda x, w, b: F.group_norm(x, 3, w, b, layout="NCHW"), x, w, real(6)),
        ("group_norm", lambda x: T.group_norm(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1),
         lambda x: F.group_norm(x, 2), real(2, 3, 5, 4)),
        ("instance_norm", lambda x, w, b: T.instance_norm(x, None, None, w, b),
         lambda x, w, b: F.instance_norm(x, None, None, w, b, layout="NCHW"), x, w, real(6)),
        ("instance_norm", lambda x: T.instance_norm(x, MEAN, VAR, use_input_stats=False),
         lambda x: F.instance_norm(x, MEAN.numpy(), VAR.numpy(), use_input_stats=False,
                                   layout="NCHW"), x),
        *[same("local_response_norm", x, ours=FIRST, size=n, alpha=0.5, beta=0.6, k=2.0)
          for n in (1, 2, 3, 8)],
    ])  # fmt: skip


def test_running_statistics():
    x, mean, var = real(4, 6, 3), real(6), positive(6)
    theirs = [torch.tensor(v.copy()) for v in (mean, var)]
    y = T.batch_norm(torch.tensor(x), *theirs, training=True, momentum=0.3)
    found = F.batch_norm_train(x, mean, var, momentum=0.3, layout="NCHW")
    for a, b in zip(found, (y, *theirs), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9)


def test_activations():
    x = real(4, 6) * 3
    names = (
        "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
        "leaky_relu", "logsigmoid", "mish", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu",
        "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    )  # fmt: skip
    check([
        *[same(n, x) for n in names],
        same("gelu", x, approximate="tanh"), same("softplus", x, beta=0.7),
        same("elu", x, alpha=0.5), same("celu", x, alpha=0.5),
        same("prelu", x, np.array([0.3])), same("prelu", real(2, 3, 4), real(3), ours=FIRST),
        ("threshold", lambda x: T.threshold(x, 0.4, 7.0), lambda x: F.threshold(x, 0.4, 7.0), x),
        *[(n, lambda x, n=n: getattr(T, n)(x, 0), lambda x, n=n: getattr(F, n)(x, 0), x)
          for n in ("glu", "softmax", "log_softmax", "softmin")],
    ])  # fmt: skip


def test_attention():
    q, k, v = real(2, 4, 3, 5), real(2, 4, 6, 5), real(2, 4, 6, 7)
    few = real(2, 2, 6, 5)
    mask = RNG.uniform(size=(2, 1, 3, 6)) < 0.7
    mask[..., 0] = True
    bias = real(4, 3, 6)
    name = "scaled_dot_product_attention"
    check([
        same(name, q, k, v), same(name, q, k, v, is_causal=True), same(name, q, k, v, scale=0.3),
        (name, lambda *xs: T.scaled_dot_product_attention(*xs, torch.tensor(mask)),
         lambda *xs: F.scaled_dot_product_attention(*xs, mask), q, k, v),
        same(name, q, k, v, bias),
        same(name, q, few, few, enable_gqa=True),
        same(name, q, few, few, bias, enable_gqa=True),
        same(name, q[0, 0], k[0, 0], v[0, 0]),
        (name, lambda *xs: T.scaled_dot_product_attention(*xs, attn_mask=torch.ones(
            3, 6, dtype=torch.bool).tril(2).triu(1)),
         lambda *xs: F.scaled_dot_product_attention(*xs, is_causal=True, window=1, query_offset=2),
         q, k, v),
    ])  # fmt: skip


def test_classification_losses():
    x, t = real(5, 4), np.array([0, 3, 1, -100, 2])
    spatial, labels = real(2, 4, 3, 5), RNG.integers(0, 4, (2, 3, 5))
    labels[0, 0] = -100
    w = positive(4)
    soft = positive(5, 4)
    cases = []
    for reduction in ("none", "mean", "sum"):
        for options in ({}, {"label_smoothing": 0.3}):
            more = {"reduction": reduction, **options}
            weighing = [("w", {"weight": (torch.tensor(w), w)}), ("", {})]
            for name, ws in weighing:
                there = {k: v[0] for k, v in ws.items()} | more
                here = {k: v[1] for k, v in ws.items()} | more
                cases += [
                    (f"{name} {more}", lambda x, t, o=there: T.cross_entropy(x, t, **o),
                     lambda x, t, o=here: F.cross_entropy(x, t, **o), x, t),
                    (f"spatial {name} {more}", lambda x, t, o=there: T.cross_entropy(x, t, **o),
                     lambda x, t, o=here: F.cross_entropy(x, t, axis=1, **o), spatial, labels),
                    (f"soft {name} {more}", lambda x, t, o=there: T.cross_entropy(x, t, **o),
                     lambda x, t, o=here: F.cross_entropy(x, t, **o), x, soft),
                ]  # fmt: skip
        cases += [
            same("nll_loss", x, t, reduction=reduction),
            same("cross_entropy", x[0], np.array(2), reduction=reduction),
            same("cross_entropy", x, t % 4, reduction=reduction, ignore_index=1),
            same("binary_cross_entropy", soft, positive(5, 4), reduction=reduction),
            same("binary_cross_entropy_with_logits", x, soft, reduction=reduction),
            (f"pos {reduction}", lambda x, y, r=reduction: T.binary_cross_entropy_with_logits(
                x, y, torch.tensor(w), reduction=r, pos_weight=torch.tensor(w + 1)),
             lambda x, y, r=reduction: F.binary_cross_entropy_with_logits(x, y, w, r, w + 1),
             x, soft),
            same("kl_div", x, soft, reduction=reduction),
            same("kl_div", x, real(5, 4), reduction=reduction, log_target=True),
        ]  # fmt: skip
    zeros = np.where(soft < 0.5, 0, soft)
    cases.append((
        "batchmean", lambda x: T.kl_div(x, torch.tensor(zeros), reduction="batchmean"),
        lambda x: F.kl_div(x, zeros, "batchmean"), x,
    ))  # fmt: skip
    check(cases)


def test_regression_losses():
    x, t, w = real(5, 4) * 2, real(5, 4), positive(5, 4)
    counts = np.array([0.5, 1.0, 2.0, 7.0])
    cases = []
    for r in ("none", "mean", "sum"):
        cases += [
            same("mse_loss", x, t, reduction=r), same("l1_loss", x, t, reduction=r),
            same("smooth_l1_loss", x, t, reduction=r, beta=0.7),
            same("smooth_l1_loss", x, t, reduction=r, beta=0.0),
            same("huber_loss", x, t, reduction=r, delta=1.3),
            same("poisson_nll_loss", x[0], counts, reduction=r),
            same("poisson_nll_loss", np.abs(x[0]), counts, reduction=r, log_input=False, full=True),
            same("gaussian_nll_loss", x, t, w, reduction=r, full=True),
            same("gaussian_nll_loss", x, t, w[:, 0], reduction=r, eps=0.5),
            ("weighted", lambda x, t, w, r=r: T.mse_loss(x, t, reduction=r, weight=w),
             lambda x, t, w, r=r: F.mse_loss(x, t, r, w), x, t, w),
        ]  # fmt: skip
    check(cases)


def test_margin_losses():
    x, y, z = real(6, 4), real(6, 4), real(6, 4)
    sign = np.array([1, -1, 1, 1, -1, -1])
    signs = np.where(real(6, 4) > 0, 1, -1)
    t = np.array([0, 3, 1, 2, 3, 3])
    lists = np.array([[0, 2, -1, 1], [3, -1, -1, -1], [-1, 0, 1, 2], [0, 1, 2, 3], [1, 1, -1, 0],
                      [2, 0, 3, -1]])  # fmt: skip
    cases = []
    for r in ("none", "mean", "sum"):
        cases += [
            same("cosine_embedding_loss", x, y, sign, reduction=r, margin=0.1),
            same("triplet_margin_loss", x, y, z, reduction=r),
            same("triplet_margin_loss", x, y, z, reduction=r, p=1.5, swap=True, margin=2.0),
            same("margin_ranking_loss", x[:, 0], y[:, 0], sign, reduction=r, margin=0.2),
            same("hinge_embedding_loss", x, signs, reduction=r, margin=0.5),
            same("soft_margin_loss", x, signs, reduction=r),
            same("multi_margin_loss", x, t, reduction=r),
            same("multi_margin_loss", x[0], np.array(2), reduction=r, p=2, margin=0.4),
            ("weighted", lambda x, t, r=r: T.multi_margin_loss(
                x, t, weight=torch.tensor(WEIGHT), reduction=r),
             lambda x, t, r=r: F.multi_margin_loss(x, t, weight=WEIGHT, reduction=r), x, t),
            same("multilabel_margin_loss", x, lists, reduction=r),
            same("multilabel_soft_margin_loss", x, (signs > 0).astype(np.int64), reduction=r),
        ]  # fmt: skip
    cases += [
        ("cosine_similarity", lambda x, y: T.cosine_similarity(x, y, dim=-1), F.cosine_similarity,
         x, y),
        same("pairwise_distance", x, y), same("pairwise_distance", x, y, p=3.0),
        ("normalize", lambda x: T.normalize(x, 3.0, 1), lambda x: F.normalize(x, 3.0, 1), x),
    ]  # fmt: skip
    check(cases)


WEIGHT = positive(4)


def test_ctc():
    x = real(7, 4, 5)
    targets = np.array([[1, 2, 2], [3, 1, 4], [2, 2, 2], [4, 0, 0]])
    spans, sizes = [7, 5, 4, 6], [3, 2, 3, 0]  # the third does not fit
    cases = []
    for r in ("none", "mean", "sum"):
        for zero in (False, True):
            if not zero and r != "none":
                continue
            for blank in (0, 4):

                def theirs(x, r=r, zero=zero, blank=blank):
                    logs = T.log_softmax(x, -1)
                    there = torch.tensor(np.where(targets == blank, 3, targets))
                    return T.ctc_loss(logs, there, torch.tensor(spans), torch.tensor(sizes),
                                      blank, r, zero)  # fmt: skip

                def ours(x, r=r, zero=zero, blank=blank):
                    here = np.where(targets == blank, 3, targets)
                    return F.ctc_loss(F.log_softmax(x), here, spans, sizes, blank, r, zero)

                if zero:
                    cases.append((f"ctc {r} {blank}", theirs, ours, x))
                else:
                    np.testing.assert_allclose(
                        ours(pb.tensor(x)).numpy(), theirs(torch.tensor(x)).numpy(), 1e-9
                    )
    flat = np.array([1, 2, 2, 3, 1])
    cases.append((
        "one vector",
        lambda x: T.ctc_loss(T.log_softmax(x, -1), torch.tensor(flat), torch.tensor([7, 7]),
                             torch.tensor([3, 2])),
        lambda x: F.ctc_loss(F.log_softmax(x), flat, [7, 7], [3, 2]), x[:, :2],
    ))  # fmt: skip
    cases.append((
        "one sequence",
        lambda x: T.ctc_loss(T.log_softmax(x, -1), torch.tensor(flat[:3]), torch.tensor(7),
                             torch.tensor(3)),
        lambda x: F.ctc_loss(F.log_softmax(x), flat[:3], 7, 3), x[:, 0],
    ))  # fmt: skip
    check(cases)


def test_interpolation():
    x1, x2, x3 = real(2, 3, 7), real(2, 3, 5, 6), real(1, 2, 3, 4, 5)
    cases = []
    for x, modes in ((x1, ("linear",)), (x2, ("bilinear", "bicubic")), (x3, ("trilinear",))):
        rank = x.ndim - 2
        up, down = (9, 11, 8)[:rank], (4, 3, 2)[:rank]
        for mode in modes:
            for size in (up, down, (1,) * rank):
                for align in (False, True):
                    cases.append(
                        same(
                            "interpolate", x, ours=FIRST, size=size, mode=mode, align_corners=align
                        )
                    )
            cases += [
                same("interpolate", x, ours=FIRST, scale_factor=1.7, mode=mode),
                same("interpolate", x, ours=FIRST, scale_factor=0.6, mode=mode,
                     recompute_scale_factor=True),
            ]  # fmt: skip
        for mode in ("nearest", "nearest-exact", "area"):
            for size in (up, down):
                cases.append(same("interpolate", x, ours=FIRST, size=size, mode=mode))
            cases.append(same("interpolate", x, ours=FIRST, scale_factor=2, mode=mode))
            if mode != "area":
                cases.append(same("interpolate", x, ours=FIRST, scale_factor=1.7, mode=mode))
    check(cases)


def test_grids():
    x2, x3 = real(2, 3, 5, 6), real(1, 2, 3, 4, 5)
    g2 = RNG.uniform(-1.7, 1.7, (2, 4, 3, 2))
    g3 = RNG.uniform(-1.7, 1.7, (1, 2, 3, 4, 3))
    cases = []
    for align in (False, True):
        for border in ("zeros", "border", "reflection"):
            options = {"padding_mode": border, "align_corners": align}
            for mode in ("bilinear", "nearest", "bicubic"):
                cases.append(same("grid_sample", x2, g2, ours=FIRST, mode=mode, **options))
            cases.append(same("grid_sample", x3, g3, ours=FIRST, **options))
            cases.append(same("grid_sample", x3, g3, ours=FIRST, mode="nearest", **options))
        cases += [
            same("affine_grid", real(2, 2, 3), ours=FIRST, size=(2, 1, 4, 5), align_corners=align),
            same("affine_grid", real(1, 3, 4), ours=FIRST, size=(1, 2, 4, 1, 3),
                 align_corners=align),
        ]  # fmt: skip
    check(cases)


def test_rearranging():
    x = real(2, 12, 4, 6)
    cases = [
        same("pixel_shuffle", x, ours=FIRST, upscale_factor=2),
        same("pixel_unshuffle", x, ours=FIRST, downscale_factor=2),
        same("channel_shuffle", x, ours=FIRST, groups=3),
        same("unfold", x, ours=FIRST, kernel_size=(2, 3), dilation=(2, 1), padding=1, stride=2),
        same("unfold", x[0], ours=FIRST, kernel_size=3),
        same("fold", real(2, 18, 10), ours=FIRST, output_size=(4, 7), kernel_size=(2, 3),
             dilation=(2, 1), padding=(1, 0), stride=(2, 1)),
        same("pad", x, pad=(1, 2, -1, 3), value=0.5),
        same("pad", x, pad=(1, 2, 2, 0), mode="reflect"),
        same("pad", x, pad=(1, 2, 5, 0), mode="replicate"),
        same("pad", x, pad=(1, 2, 4, 0), mode="circular"),
    ]  # fmt: skip
    check(cases)
