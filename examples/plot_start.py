"""
A first fit
===========

Predictors and responses with three modes each, a known answer, and a model that finds
it.
"""

from dst2r import DST2R, make_tensor_regression
from dst2r.metrics import pooled_r2, relative_error, selection_rates
from dst2r.plotting import ComponentsDisplay, PredictionDisplay

# %%
# The data: 1000 samples, of which the last 200 are kept for a test. Each predictor is
# an 8 × 8 × 8 tensor of zeros and ones, each response a 4 × 4 × 4 tensor, and the
# coefficient a sum of three components, three of ten of whose entries are zero.

data = make_tensor_regression(
    1000,
    (8, 8, 8),
    (4, 4, 4),
    rank=3,
    sparsity=0.3,
    normalize=True,
    snr=3,
    random_state=0,
)
X, Y, X_test, Y_test = data.X[:800], data.Y[:800], data.X[800:], data.Y[800:]

# %%
# The fit. The rank is given; the penalty is chosen by BIC.

model = DST2R(rank=3).fit(X, Y)
print("coefficient:", model.coef_.shape, "in", model.n_parameters_, "numbers")
print(f"test R²: {pooled_r2(Y_test, model.predict(X_test)):.3f}")

# %%
# What was found. Each row is a component, each panel a mode; a bar goes up for a
# positive and down for a negative entry, and where there is no bar the entry is
# exactly zero. The first three panels belong to the predictors.

ComponentsDisplay.from_estimator(model)

# %%
# Predictions of the samples that the fit has not seen. ``score``, as in scikit-learn,
# is the mean of the R² of all 64 response entries, and here some of them depend on
# nothing; the R² above pools them.

PredictionDisplay.from_estimator(model, X_test, Y_test)

# %%
# Here the truth is known, so we can tell how far the coefficient is from it, and how
# much of its support was found (after matching the components one to one).

rates = selection_rates(model.cp_, data.cp)
print(f"relative error: {relative_error(model.coef_, data.coef):.4f}")
print(f"non-zero entries found: {rates.tpr:.0%}")
print(f"zeros taken for non-zero: {rates.fpr:.0%}")

# sphinx_gallery_thumbnail_number = 1
