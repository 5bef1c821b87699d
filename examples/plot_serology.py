"""
Which antibodies bind which receptors?
======================================

COVID-19 serology: from antibodies (6 antigens × 6 isotypes) to how well they bind Fc
receptors (6 antigens × 5 receptors).

The data come with TensorLy (Tan et al. 2021, measured by Zohar et al. 2020): log
signals of 438 blood samples.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tensorly.datasets.data_imports import load_covid19_serology

from dst2r import DST2RCV
from dst2r.labels import labelled_coef, selected_entries
from dst2r.metrics import pooled_r2
from dst2r.plotting import ComponentsDisplay, CVDisplay

# %%
# The last axis of the tensor holds isotypes and receptors: we split it, and give
# every mode its names. Each response entry is put in units of its spread, so that all
# count alike.

data = load_covid19_serology()
tensor, (antigens, columns) = np.asarray(data["tensor"]), data["ticks"][1:]
X = xr.DataArray(
    tensor[:, :, :6],
    dims=("sample", "antigen", "isotype"),
    coords={"antigen": antigens, "isotype": columns[:6]},
)
Y = xr.DataArray(
    tensor[:, :, 6:],
    dims=("sample", "bound", "receptor"),
    coords={"bound": antigens, "receptor": columns[6:]},
)
Y = (Y - Y.mean("sample")) / Y.std("sample")
train, test = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0
print(X.shape, "->", Y.shape)

# %%
# Rank and penalty by cross-validation; of all models within one standard error of the
# best, the smallest. The antibody signals are strongly correlated with each other,
# hence the ridge ``l2``. Eight components can still be read; with more (try
# ``ranks=range(1, 11)``) the loss goes on falling, slowly.

model = DST2RCV(ranks=range(1, 9), n_l1=8, l2=0.2, standardize=True, rule="1se").fit(
    X[train], Y[train]
)
print(f"rank {model.rank_}, {model.n_parameters_} numbers")
CVDisplay.from_estimator(model)

# %%
# The components, with names, the largest on top: these antigens and isotypes (first
# two panels) go together with the binding of these antigens to these receptors.

ComponentsDisplay.from_estimator(model)

# %%
# The same as a table, sorted by weight; ``to_frame()`` and ``to_csv()`` export it.

print(selected_entries(model)[:12])

# %%
# Beside a ridge on flattened arrays, tuned by leave-one-out. R² is pooled over all
# response entries.
#
# Several samples may come from one patient, and TensorLy does not tell which: both
# figures here are a little too high. ``dst2r demo`` keeps all samples of a patient in
# one fold.

ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 25)))
rows, targets = X.values.reshape(len(X), -1), Y.values.reshape(len(Y), -1)
predicted = ridge.fit(rows[train], targets[train]).predict(rows[test])
scores = {
    f"dst2r, {model.n_parameters_} numbers": model.predict(X[test]).values,
    f"ridge, {rows.shape[1] * targets.shape[1]} numbers": predicted.reshape(
        Y[test].shape
    ),
}
for name, values in scores.items():
    print(f"{name:20s} R² {pooled_r2(Y.values[test], values):.3f}")

# %%
# The coefficient as a labelled array. One receptor, bound to one antigen (the spike
# protein S): what predicts it?

slice_ = labelled_coef(model).sel(bound="S", receptor="FcR3A")
figure, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
peak = float(np.abs(slice_).max())
image = ax.imshow(
    slice_.transpose("antigen", "isotype"), cmap="RdBu_r", vmin=-peak, vmax=peak
)
ax.set_xticks(range(6), slice_.isotype.values)
ax.set_yticks(range(6), slice_.antigen.values)
ax.set(xlabel="isotype", ylabel="antigen", title="coefficient of FcR3A bound to S")
figure.colorbar(image, shrink=0.8)

# sphinx_gallery_thumbnail_number = 2
