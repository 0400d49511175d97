"""Functions for neural networks, under PyTorch's names.

Layouts are said explicitly: images are [N, spatial..., C] (`layout="NHWC"`, the default) or
[N, C, spatial...] (`layout="NCHW"`), filters [spatial..., C / groups, F].
"""

from pullback.graph.boundary import publish
from pullback.nn.functional import (
    adaptive_pooling,
    attention,
    classification_losses,
    convolution,
    ctc,
    dropouts,
    grid_sampling,
    interpolation,
    linear_maps,
    margin_losses,
    normalization,
    patches,
    pooling,
    position_embeddings,
    regression_losses,
    shuffling,
    torch_activations,
    torch_padding,
)
from pullback.nn.functional.adaptive_pooling import *  # noqa: F403
from pullback.nn.functional.attention import *  # noqa: F403
from pullback.nn.functional.classification_losses import *  # noqa: F403
from pullback.nn.functional.convolution import *  # noqa: F403
from pullback.nn.functional.ctc import *  # noqa: F403
from pullback.nn.functional.dropouts import *  # noqa: F403
from pullback.nn.functional.grid_sampling import *  # noqa: F403
from pullback.nn.functional.interpolation import *  # noqa: F403
from pullback.nn.functional.linear_maps import *  # noqa: F403
from pullback.nn.functional.margin_losses import *  # noqa: F403
from pullback.nn.functional.normalization import *  # noqa: F403
from pullback.nn.functional.patches import *  # noqa: F403
from pullback.nn.functional.pooling import *  # noqa: F403
from pullback.nn.functional.position_embeddings import *  # noqa: F403
from pullback.nn.functional.regression_losses import *  # noqa: F403
from pullback.nn.functional.shuffling import *  # noqa: F403
from pullback.nn.functional.torch_activations import *  # noqa: F403
from pullback.nn.functional.torch_padding import *  # noqa: F403

__all__ = [
    *torch_activations.__all__, *adaptive_pooling.__all__, *attention.__all__, *convolution.__all__,
    *dropouts.__all__, *linear_maps.__all__, *normalization.__all__, *pooling.__all__,
    *position_embeddings.__all__, *classification_losses.__all__, *ctc.__all__,
    *margin_losses.__all__, *regression_losses.__all__, *grid_sampling.__all__,
    *interpolation.__all__,
    *shuffling.__all__, *patches.__all__, *torch_padding.__all__,
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
