"""
Names that stay with the numbers
================================

Labelled arrays in, labelled arrays out: dimensions and coordinates of xarray survive
the fit.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

from dst2r import DST2R
from dst2r.labels import labelled_coef, labelled_factors, selected_entries

# %%
# Expression of genes in tissues predicts what is measured in blood at some times. The
# truth: two genes in two tissues drive two markers early; everything else is noise.

rng = np.random.default_rng(0)
genes = [f"{family}{k}" for family in ("IFIT", "CCL", "HLA", "MX") for k in range(1, 6)]
tissues = ["liver", "spleen", "lung", "skin"]
markers, days = ["CRP", "IL6", "TNF"], pd.date_range("2024-01-01", periods=6)

X = xr.DataArray(
    rng.standard_normal((120, 20, 4)),
    dims=("patient", "gene", "tissue"),
    coords={"gene": genes, "tissue": tissues},
)
drive = X.sel(gene="IFIT2", tissue="liver") + 0.7 * X.sel(gene="IFIT3", tissue="liver")
drive = (
    drive
    + 0.6 * X.sel(gene="IFIT2", tissue="spleen")
    + 0.42 * X.sel(gene="IFIT3", tissue="spleen")
)
shape = xr.DataArray([1.0, 0.8, 0.4, 0.0, 0.0, 0.0], dims="day", coords={"day": days})
size = xr.DataArray([1.0, 0.6, 0.0], dims="marker", coords={"marker": markers})
Y = (drive * size * shape).transpose("patient", "marker", "day")
Y = Y + 0.8 * rng.standard_normal(Y.shape)

# %%
# The sample is the first dimension, or the only one that X and Y share. The model
# remembers the rest.

model = DST2R(rank=1).fit(X, Y)
print(selected_entries(model))

# %%
# Predictions, coefficients and factors come back with names.

print(model.predict(X[:2]).sel(marker="CRP").to_series().round(2).unstack("day"))

# %%
# New data are compared with what was fitted. Another order of the genes is put right;
# a gene that is missing is refused, by name.

shuffled = X.isel(gene=rng.permutation(20))
print(
    "shuffled genes, same predictions:",
    bool(np.allclose(model.predict(shuffled), model.predict(X))),
)
try:
    model.predict(X.drop_sel(gene="CCL1"))
except ValueError as error:
    print(error)

# %%
# xarray and matplotlib do the rest.

coef = labelled_coef(model).sel(marker="CRP", day="2024-01-01")
factors = labelled_factors(model)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=[3, 2]
)
coef.transpose("tissue", "gene").plot.imshow(
    ax=left, cmap="RdBu_r", center=0, cbar_kwargs={"label": "coefficient"}
)
left.set_title("effect on CRP on the first day")
left.tick_params(axis="x", rotation=90)
left.set(xlabel="", ylabel="")
timing = factors[3].isel(component=0)
right.plot(timing["day"], timing, "o-", color="C0")
right.axhline(0, color="0.8", lw=0.8)
right.set_title("the component over days")
right.tick_params(axis="x", rotation=30)
