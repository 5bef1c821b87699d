"""
Competing methods side by side
==============================

Every method of :mod:`dst2r.baselines` has the same interface, so a comparison is a
loop.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.baselines import HOLRR, STORE, CPRidge, SparseOLS, TensorEnvelope
from dst2r.metrics import relative_error, support_rates

# %%
# One simulated data set of moderate size: 6 × 6 predictors, 4 × 4 responses, rank 2,
# half of the factor entries zero. Methods that have a rank are told it, but for the
# last row, which chooses it; everything else is tuned as its authors do. This is one
# draw: ``dst2r reproduce landscape`` repeats it over noise levels, ranks and seeds.

data = make_tensor_regression(
    400, (6, 6), (4, 4), rank=2, sparsity=0.5, normalize=True, noise=0.5, random_state=8
)
methods = {
    "SparseOLS": SparseOLS(),
    "STORE": STORE(rank=2, random_state=0),
    "TensorEnvelope": TensorEnvelope(),
    "HOLRR": HOLRR(),
    "CPRidge": CPRidge(rank=2, random_state=0),
    "DST2R, rank given": DST2R(rank=2),
    "DST2R, rank chosen": DST2RCV(ranks=range(1, 6), rule="1se"),
}
coefs = {name: method.fit(data.X, data.Y).coef_ for name, method in methods.items()}
ridge = RidgeCV(np.logspace(-2, 4, 25)).fit(
    data.X.reshape(400, -1), data.Y.reshape(400, -1)
)
coefs = {"ridge": ridge.coef_.T.reshape(data.coef.shape)} | coefs

# %%
# Error of the coefficient, and its support: the share of non-zero entries that were
# found, and of zeros that were taken for non-zero.

print(f"{'':20s}error  found  wrongly kept")
errors = {}
for name, coef in coefs.items():
    rates = support_rates(coef, data.coef)
    errors[name] = relative_error(coef, data.coef)
    print(f"{name:20s}{errors[name]:.3f}  {rates.tpr:5.0%}  {rates.fpr:12.0%}")

# %%

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained", width_ratios=[1, 1.3]
)
left.barh(
    list(errors),
    list(errors.values()),
    color=["C0" if "DST2R" in name else "0.75" for name in errors],
)
left.invert_yaxis()
left.set(xlabel="relative error of the coefficient")
left.spines[["top", "right"]].set_visible(False)
shown = {
    "truth": data.coef,
    **{name: coefs[name] for name in ("ridge", "CPRidge", "DST2R, rank given")},
}
panels = right.get_subplotspec().subgridspec(2, 2)
right.remove()
peak = np.abs(data.coef).max()
for k, (name, coef) in enumerate(shown.items()):
    ax = figure.add_subplot(panels[k // 2, k % 2])
    ax.imshow(
        coef.reshape(36, 16).T,
        cmap="RdBu_r",
        vmin=-peak,
        vmax=peak,
        aspect="auto",
        interpolation="nearest",
    )
    ax.set(xticks=[], yticks=[])
    ax.set_title(name, fontsize="medium")
