"""
A forecast in space and time
============================

From six months of sea temperature on a map to the rain of the next three months in
ten regions.

The climate is simulated: two slow patterns in the sea, each in its own part of the
map, move the rain of some regions months later.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import TimeSeriesSplit

from dst2r import DST2RCV
from dst2r.metrics import r2_score
from dst2r.plotting import ComponentsDisplay

# %%
# A simulation of 60 years, month by month. What is measured at a place is mostly
# local weather; the patterns add to it.

rng = np.random.default_rng(1)
months, (n_lat, n_lon), n_regions = 720, (8, 12), 10
slow = np.zeros((months + 3, 2))
for t in range(1, len(slow)):
    slow[t] = (0.95, 0.9) * slow[t - 1] + rng.standard_normal(2) * (0.31, 0.44)
places = np.zeros((n_lat, n_lon, 2))
places[3:5, 5:11, 0] = 1.0  # a warm tongue
places[5:8, 1:3, 1] = 1.0  # a gyre in the north
sea = slow[:-3] @ places.reshape(-1, 2).T + 1.5 * rng.standard_normal(
    (months, n_lat * n_lon)
)
sea = sea.reshape(months, n_lat, n_lon)
effect = np.zeros((2, n_regions))
effect[0, :4] = 1.0, 0.8, -0.8, 0.5
effect[1, 6:9] = 1.0, -1.0, 0.7
rain = slow[:-3] @ effect + 0.6 * rng.standard_normal((months, n_regions))

# %%
# Samples: six months of maps in X, the next three months of rain in Y, in the order
# of time. The first 40 years train, the others test.

starts = range(months - 9)
X = np.stack([sea[t : t + 6] for t in starts])
Y = np.stack([rain[t + 6 : t + 9] for t in starts])
train, test = slice(0, 480), slice(489, None)  # no month is in both
print(X.shape, "->", Y.shape)

# %%
# Cross-validation must not look into the future: scikit-learn's ``TimeSeriesSplit``
# is given as ``cv``.

model = DST2RCV(ranks=range(1, 5), n_l1=8, cv=TimeSeriesSplit(4)).fit(
    X[train], Y[train]
)
print("rank", model.rank_)
print(f"{model.n_parameters_} numbers for {model.coef_.size} coefficients")

# %%
# Beside a tuned ridge on flattened arrays, and persistence (the last month's rain
# goes on), over the seven regions that the sea moves at all.

flat = X.reshape(len(X), -1)
ridge = RidgeCV(np.logspace(0, 6, 25)).fit(flat[train], Y[train].reshape(480, -1))
last = np.stack([rain[t + 5] for t in starts])[test]
forecasts = {
    "DST2R": model.predict(X[test]),
    "ridge": ridge.predict(flat[test]).reshape(Y[test].shape),
    "persistence": np.repeat(last[:, None], 3, axis=1),
}
moved = np.any(effect != 0, axis=0)
figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for (name, forecast), style in zip(forecasts.items(), ("o-", "s--", "^:"), strict=True):
    by_month = r2_score(Y[test], forecast, per_entry=True)[:, moved].mean(axis=1)
    print(f"{name:12s}", "  ".join(f"{value:5.2f}" for value in by_month))
    ax.plot(range(1, 4), by_month, style, label=name)
ax.set(xlabel="months ahead", ylabel="R², mean of moved regions", xticks=range(1, 4))
ax.legend(frameon=False)

# %%
# The components: which months and places of the past (first three panels) go to which
# months and regions of the future.

ComponentsDisplay.from_estimator(
    model,
    mode_names=["months ago", "latitude", "longitude", "months ahead", "region"],
    labels=[
        [str(k) for k in range(5, -1, -1)],
        [f"{10 * k - 35}°" for k in range(n_lat)],
        [f"{30 * k}°" for k in range(n_lon)],
        ["1", "2", "3"],
        [str(k + 1) for k in range(n_regions)],
    ],
)

# %%
# Where in the sea each component looks: its two place factors, as a map, with the
# true places outlined.

weights, (_, latitude, longitude, *_) = model.cp_
figure, axes = plt.subplots(
    1,
    model.rank_,
    figsize=(3.4 * model.rank_, 2.6),
    layout="constrained",
    squeeze=False,
)
for r, ax in enumerate(axes[0]):
    seen = np.outer(latitude[:, r], longitude[:, r])
    peak = np.abs(seen).max()
    ax.imshow(seen, cmap="RdBu_r", vmin=-peak, vmax=peak, origin="lower")
    for k in range(2):
        ax.contour(places[:, :, k], [0.5], colors="k", linewidths=1)
    ax.set(
        title=f"component {r + 1}",
        xticks=[],
        yticks=[],
        xlabel="longitude",
        ylabel="latitude",
    )
