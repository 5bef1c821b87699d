"""
Lasso and reduced-rank regression as special cases
==================================================

Vectors and matrices are no special code: with them the same estimator is the lasso,
or reduced-rank regression.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, lasso_path

from dst2r import DST2R, make_tensor_regression
from dst2r.metrics import relative_error

# %%
# Vector → scalar: the lasso
# --------------------------
#
# With one predictor mode and a scalar response the objective is scikit-learn's lasso,
# ``l1`` being its ``alpha``. We draw its path on the diabetes data, and our fits at
# some penalties on top of it. ``relax=False``, since the lasso does not refit.

X, y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
alphas, path, _ = lasso_path(X - X.mean(axis=0), y - y.mean(), tol=1e-10)
chosen = alphas[5::15]
ours = np.array(
    [DST2R(rank=1, l1=alpha, relax=False, tol=1e-8).fit(X, y).coef_ for alpha in chosen]
)

figure, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
lines = ax.plot(alphas, path.T, lw=1.2)
for line, values in zip(lines, ours.T, strict=True):
    ax.plot(chosen, values, "o", ms=4, color=line.get_color())
ax.set(xscale="log", xlabel="penalty l1 (scikit-learn's alpha)", ylabel="coefficient")
ax.set_title("lines: scikit-learn's lasso, dots: DST2R", fontsize="medium")
ax.invert_xaxis()
print(f"largest difference: {np.abs(ours - path.T[5::15]).max():.1e}")

# %%
# Vector → vector: reduced-rank regression
# ----------------------------------------
#
# With a vector on both sides and no penalty, the fit of rank R is reduced-rank
# regression: the least-squares coefficient, projected on the R leading directions of
# its fitted values. scikit-learn has the first half; the second is three lines.

data = make_tensor_regression(
    200, (12,), (9,), rank=3, sparsity=0.0, normalize=True, noise=0.3, random_state=0
)


def reduced_rank(X, Y, rank):
    """Least squares, projected on leading directions of the fitted values."""
    ols = LinearRegression().fit(X, Y)
    fitted = ols.predict(X) - Y.mean(axis=0)
    directions = np.linalg.svd(fitted, full_matrices=False)[2][:rank]
    return ols.coef_.T @ directions.T @ directions


ranks = range(1, 8)
closed = [reduced_rank(data.X, data.Y, rank) for rank in ranks]
ours = [
    DST2R(rank, l1=0.0, tol=1e-7, max_iter=1000).fit(data.X, data.Y).coef_
    for rank in ranks
]
differences = [relative_error(*pair) for pair in zip(ours, closed, strict=True)]
print(f"largest relative difference: {max(differences):.1e}")

figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(
    ranks, [relative_error(coef, data.coef) for coef in closed], label="closed form"
)
ax.plot(ranks, [relative_error(coef, data.coef) for coef in ours], "o", label="DST2R")
ax.set(xlabel="rank", ylabel="relative error of the coefficient", ylim=0)
ax.set_title("the truth has rank 3", fontsize="medium")
ax.legend(frameon=False)
