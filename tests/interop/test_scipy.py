"""SciPy's array API functions run on tensors and return tensors.

SciPy reads `SCIPY_ARRAY_API` when it is imported, so the calls run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("scipy", minversion="1.17")

# One call a line; `t` makes an array of NumPy or a tensor, `xp` is the namespace of both
CALLS = """
special.erf(t(X))
special.logit(t(X))
special.expit(t(X))
special.gammaln(t(X))
special.ndtr(t(X))
special.ndtri(t(X))
special.xlogy(t(X), t(X))
special.rel_entr(t(X), t(X))
special.betainc(t(X), t(X), t(X))
special.gammainc(t(X), t(X))
special.logsumexp(t(X), axis=1)
special.softmax(t(X), axis=0)
special.log_softmax(t(X), axis=1)
special.i0e(t(X))
special.entr(t(X))
special.stdtr(t(X), t(X))
stats.skew(t(X))
stats.kurtosis(t(X), axis=1)
stats.moment(t(X), 2)
stats.gmean(t(X))
stats.hmean(t(X))
stats.zscore(t(X))
stats.variation(t(X))
stats.entropy(t(X))
stats.sem(t(X))
stats.describe(t(X)).variance
stats.ttest_1samp(t(X), 0.5).pvalue
stats.ttest_ind(t(X), t(X + 0.1)).statistic
stats.jarque_bera(t(X)).pvalue
stats.rankdata(t(V))
stats.circmean(t(X))
vq.whiten(t(X))
vq.vq(t(X), t(X[:3]))[1]
vq.kmeans2(t(X), t(X[:2]))[0]
signal.detrend(t(V))
signal.convolve(t(V), t(V[:3]), method="direct")
signal.lfilter(t(V[:2]), t(V[:2]), t(V))
optimize.rosen(t(V))
optimize.rosen_der(t(V))
find_root(lambda x, c: x**2 - c, (t(V * 0), t(V + 2)), args=(t(V),)).x
find_minimum(lambda x: (x - 1) ** 2, (t(V - 3), t(V), t(V + 3))).x
integrate.trapezoid(t(V))
integrate.cumulative_trapezoid(t(V))
integrate.cubature(lambda x: xp.sum(x**2, axis=-1), t(np.zeros(2)), t(np.ones(2))).estimate
integrate.tanhsinh(lambda x: x**2, t(V), t(V + 1)).integral
differentiate.derivative(lambda x: xp.sin(x), t(V)).df
differentiate.jacobian(lambda x: x**2, t(V[:3])).df
constants.convert_temperature(t(V), "C", "K")
ndimage.gaussian_filter(t(X), 1.0)
"""

SCRIPT = f'''
import warnings
warnings.simplefilter("ignore")
import numpy as np, pullback as pb
import scipy.cluster.vq as vq
from scipy import constants, differentiate, integrate, ndimage, optimize, signal, special, stats
from scipy.optimize.elementwise import find_minimum, find_root
pb.config(engine="reference")
rng = np.random.default_rng(0)
X, V = rng.uniform(0.2, 0.9, (6, 5)), rng.uniform(0.2, 0.9, 12)
for call in """{CALLS}""".split("\\n"):
    try:
        t, xp = np.asarray, np
        want = eval(call) if call else None
        t, xp = pb.asarray, pb
        got = eval(call) if call else None
        if call:
            assert isinstance(got, pb.Tensor), type(got)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-9)
    except Exception as error:
        print(call, "->", repr(error)[:300])
'''


def test_functions_of_scipy_return_tensors():
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
