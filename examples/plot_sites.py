"""
Statistics that add up
======================

Sites that may not share rows, streams, and data that come in batches: the sums are
enough.

Least squares sees the data only through means and the products X'X and X'Y. These
*statistics* of two samples add up exactly to those of both together. So every site
computes its own and shares that file: no row ever leaves it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dst2r import DST2R, DST2RCV, GramStatistics, load, make_tensor_regression, save
from dst2r.metrics import relative_error

# %%
# Six sites with few patients each. Every sum is about the site's own mean, and the
# shift between the means is accounted for when they are added.

rng = np.random.default_rng(0)
data = make_tensor_regression(
    480, (6, 6), (4, 3), rank=2, normalize=True, noise=0.5, random_state=5
)
rows = np.split(rng.permutation(480), 6)
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
for k, site in enumerate(rows):
    stats = GramStatistics.from_arrays(data.X[site], data.Y[site])
    save(stats, folder / f"site-{k}.dst2r")
print(sorted(path.name for path in folder.iterdir()))

# %%
# Whoever fits reads the files, adds them up, and has the fit of all patients: the
# same as with all rows in one place.

parts = [load(folder / f"site-{k}.dst2r") for k in range(6)]
together = DST2R(rank=2).fit_statistics(sum(parts[1:], start=parts[0]))
at_once = DST2R(rank=2).fit(data.X, data.Y)
difference = relative_error(together.coef_, at_once.coef_)
print(f"relative difference to one fit of all rows: {difference:.0e}")

# %%
# Cross-validation works on the files alone: each site is left out once.

model = DST2RCV(ranks=(1, 2, 3)).fit_statistics(parts)
print(f"chosen: rank {model.rank_}, {model.n_parameters_} numbers")

# %%
# What sharing brings: the error of each site on its own, and of the sums as sites
# join.

alone = [
    relative_error(DST2R(rank=2).fit_statistics(part).coef_, data.coef)
    for part in parts
]
sums = np.cumsum(np.array(parts, dtype=object))
joined = [
    relative_error(DST2R(rank=2).fit_statistics(part).coef_, data.coef) for part in sums
]

figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.bar(range(1, 7), alone, width=0.6, color="0.8", label="the site alone")
ax.plot(range(1, 7), joined, "o-", color="C0", label="all sites up to it")
ax.set(xlabel="site", ylabel="relative error", ylim=0, xticks=range(1, 7))
ax.legend(frameon=False)

# %%
# For batches that arrive in time there is ``partial_fit``, which does the adding.

stream = DST2R(rank=2)
for site in rows:
    stream.partial_fit(data.X[site], data.Y[site])
print(f"batches against one fit: {relative_error(stream.coef_, at_once.coef_):.0e}")
scratch.cleanup()
