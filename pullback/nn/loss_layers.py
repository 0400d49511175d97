"""Losses and distances as layers; weights of classes are state, which is not trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.nn import functional as F
from pullback.nn.function_layers import FunctionLayer, function_layer

_X = "pb.tensor([[0.5, -1.0]])"
_Y = "pb.tensor([[1.0, 0.0]])"


def _loss_layer(
    name: str, function: Callable[..., Any], inputs: str, result: str, settings: str = "",
    count: int = 2,
) -> type[FunctionLayer]:  # fmt: skip
    """Return the class of a loss of `count` inputs, with an example."""
    call = f"pb.nn.{name}({settings})({inputs}).item()"
    return function_layer(name, function, call, result, inputs=count)


_PAIR = f"{_X}, {_Y}"
_TARGETS = f"{_X}, pb.tensor([1])"
_SIGNS = f"{_X}, pb.tensor([[1.0, -1.0]])"
_TWO = f"{_X}, {_Y}, pb.tensor([1.0])"

L1Loss = _loss_layer("L1Loss", F.l1_loss, _PAIR, "0.75")
MSELoss = _loss_layer("MSELoss", F.mse_loss, _PAIR, "0.625")
SmoothL1Loss = _loss_layer("SmoothL1Loss", F.smooth_l1_loss, _PAIR, "0.3125")
HuberLoss = _loss_layer("HuberLoss", F.huber_loss, _PAIR, "0.25", "delta=0.5")
PoissonNLLLoss = _loss_layer("PoissonNLLLoss", F.poisson_nll_loss, _PAIR, "0.7583...")
GaussianNLLLoss = _loss_layer(
    "GaussianNLLLoss", F.gaussian_nll_loss, f"{_PAIR}, 1.0", "0.3125", count=3
)
CrossEntropyLoss = _loss_layer("CrossEntropyLoss", F.cross_entropy, _TARGETS, "1.7014...")
NLLLoss = _loss_layer("NLLLoss", F.nll_loss, _TARGETS, "1.0")
BCELoss = _loss_layer(
    "BCELoss", F.binary_cross_entropy, "pb.tensor([0.5]), pb.ones(1)", "0.6931..."
)
BCEWithLogitsLoss = _loss_layer(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, _PAIR, "0.3936..."
)
KLDivLoss = _loss_layer("KLDivLoss", F.kl_div, _PAIR, "-0.5", 'reduction="batchmean"')
CTCLoss = _loss_layer(
    "CTCLoss", F.ctc_loss, "pb.zeros((2, 1, 2)), pb.tensor([[1]]), [2], [1]", "-1.0986...", count=4
)
SoftMarginLoss = _loss_layer("SoftMarginLoss", F.soft_margin_loss, _SIGNS, "0.3936...")
HingeEmbeddingLoss = _loss_layer("HingeEmbeddingLoss", F.hinge_embedding_loss, _SIGNS, "1.25")
MultiMarginLoss = _loss_layer("MultiMarginLoss", F.multi_margin_loss, _TARGETS, "1.25")
MultiLabelMarginLoss = _loss_layer(
    "MultiLabelMarginLoss", F.multilabel_margin_loss, f"{_X}, pb.tensor([[1, -1]])", "1.25"
)
MultiLabelSoftMarginLoss = _loss_layer(
    "MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, _PAIR, "0.3936..."
)
MarginRankingLoss = _loss_layer(
    "MarginRankingLoss", F.margin_ranking_loss, f"{_PAIR}, {_Y}", "0.25", count=3
)
CosineEmbeddingLoss = _loss_layer(
    "CosineEmbeddingLoss", F.cosine_embedding_loss, _TWO, "0.5527...", count=3
)
TripletMarginLoss = _loss_layer(
    "TripletMarginLoss", F.triplet_margin_loss, f"{_X}, {_Y}, {_Y}", "1.0", count=3
)

CosineSimilarity = _loss_layer("CosineSimilarity", F.cosine_similarity, _PAIR, "0.4472...")
PairwiseDistance = _loss_layer("PairwiseDistance", F.pairwise_distance, _PAIR, "1.1180...")

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "NLLLoss", "PairwiseDistance", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss",
]  # fmt: skip
