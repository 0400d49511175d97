"""Special functions of mathematics and statistics, under the names of SciPy.

They take floats, work on both engines, and have derivatives with respect to every continuous
argument.
"""

from pullback.functions.arithmetic import cbrt
from pullback.functions.special import sinc
from pullback.graph.boundary import publish
from pullback.special import (
    bessels,
    elliptic_integrals,
    exponential_integrals,
    gamma_beta,
    lambert,
    normal,
    odds,
    orthogonal_polynomials,
    oscillating,
    weighted_sums,
)
from pullback.special.bessels import *  # noqa: F403
from pullback.special.elliptic_integrals import *  # noqa: F403
from pullback.special.exponential_integrals import *  # noqa: F403
from pullback.special.gamma_beta import *  # noqa: F403
from pullback.special.lambert import *  # noqa: F403
from pullback.special.normal import *  # noqa: F403
from pullback.special.odds import *  # noqa: F403
from pullback.special.orthogonal_polynomials import *  # noqa: F403
from pullback.special.oscillating import *  # noqa: F403
from pullback.special.weighted_sums import *  # noqa: F403
from pullback.special.zetas import polygamma, zeta

__all__ = [
    *bessels.__all__, *elliptic_integrals.__all__, *exponential_integrals.__all__,
    *gamma_beta.__all__, *lambert.__all__, *normal.__all__, *odds.__all__,
    *orthogonal_polynomials.__all__, *oscillating.__all__, *weighted_sums.__all__,
    "cbrt", "polygamma", "sinc", "zeta",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


publish(__name__)
