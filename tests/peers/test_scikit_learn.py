"""scikit-learn's estimators and metrics on tensors, by its array API dispatch.

SciPy reads `SCIPY_ARRAY_API` when it is imported, so the calls run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("sklearn", minversion="1.8")

CALLS = """
preprocessing.StandardScaler().fit_transform(a(X))
preprocessing.MinMaxScaler().fit_transform(a(X))
preprocessing.Normalizer().fit_transform(a(X))
preprocessing.PolynomialFeatures().fit_transform(a(X))
preprocessing.LabelEncoder().fit_transform(a(Y))
naive_bayes.GaussianNB().fit(a(X), a(Y)).predict(a(X))
decomposition.PCA(2, svd_solver="full").fit(a(X)).explained_variance_
linear_model.Ridge(solver="svd").fit(a(X), a(P)).predict(a(X))
linear_model.RidgeCV().fit(a(X), a(P)).predict(a(X))
discriminant_analysis.LinearDiscriminantAnalysis().fit(a(X), a(Y)).predict(a(X))
model_selection.train_test_split(a(X), random_state=0)[0]
metrics.accuracy_score(a(Y), a(1 - Y[::-1]))
metrics.f1_score(a(Y), a(1 - Y[::-1]))
metrics.confusion_matrix(a(Y), a(1 - Y[::-1]))
metrics.log_loss(a(Y), a(P))
metrics.roc_auc_score(a(Y), a(P))
metrics.r2_score(a(P), a(P[::-1]))
metrics.mean_squared_error(a(P), a(P[::-1]))
metrics.mean_absolute_percentage_error(a(P), a(P[::-1]))
metrics.pairwise.euclidean_distances(a(X), a(X[::-1]))
metrics.pairwise.cosine_similarity(a(X), a(X[::-1]))
metrics.pairwise.rbf_kernel(a(X), a(X[::-1]))
"""

SCRIPT = f'''
import warnings
warnings.simplefilter("ignore")
import numpy as np, pullback as pb
from sklearn import config_context, decomposition, discriminant_analysis, linear_model, metrics
from sklearn import model_selection, naive_bayes, preprocessing
pb.config(engine="reference")
rng = np.random.default_rng(0)
X, P = rng.normal(size=(20, 4)), rng.uniform(0.1, 0.9, 20)
Y = (X[:, 0] > 0).astype(np.int64)
for call in """{CALLS}""".split("\\n"):
    try:
        a = np.ascontiguousarray
        want = eval(call) if call else None
        with config_context(array_api_dispatch=True):
            a = pb.asarray
            got = eval(call) if call else None
        if call:
            assert isinstance(got, (pb.Tensor, float)) or np.ndim(want) == 0, type(got)
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-6)
    except Exception as error:
        print(call, "->", repr(error)[:300])
'''


def test_estimators_and_metrics_take_tensors():
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
