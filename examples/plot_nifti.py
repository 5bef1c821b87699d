"""
Brain images in, a map out
==========================

NIfTI images as predictors, and a coefficient map that viewers place over the brain.

The images are synthetic (a bright ellipsoid with noise), so that the example needs no
download.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np
from scipy.ndimage import gaussian_filter

from dst2r import DST2R
from dst2r.images import open_images, to_image

# %%
# 150 subjects, an image file each, and a mask. The grid has voxels of 4 mm and, as
# usual, its origin elsewhere than in a corner.

rng = np.random.default_rng(0)
scratch = tempfile.TemporaryDirectory()
folder, shape, n = Path(scratch.name), (36, 42, 30), 150
affine = np.diag([4.0, 4.0, 4.0, 1.0])
affine[:3, 3] = -70.0, -90.0, -50.0
x, y, z = (np.linspace(-1.2, 1.2, d) for d in shape)
radius = np.sqrt(x[:, None, None] ** 2 + y[:, None] ** 2 + z**2)
mask = radius < 1
anatomy = 100 * mask * (1.2 - 0.4 * radius)
nibabel.Nifti1Image(mask.astype(np.uint8), affine).to_filename(folder / "mask.nii.gz")

region = np.zeros(shape)
region[22:27, 24:30, 13:18] = 1
ages = np.zeros(n)
for k in range(n):
    texture = gaussian_filter(rng.standard_normal(shape), 1.0)
    texture /= texture.std()
    ages[k] = (
        50
        + 12 * (texture * region).sum() / region.sum() ** 0.5
        + 5 * rng.standard_normal()
    )
    nibabel.Nifti1Image(
        (anatomy + 10 * texture * mask).astype(np.float32), affine
    ).to_filename(folder / f"sub-{k:03d}.nii")

# %%
# Read them: one sample for each file, cropped to the box around the mask. ``space``
# remembers where the box was.

X, space = open_images(folder / "sub-*.nii", mask=folder / "mask.nii.gz")
print(X.shape, "from a grid of", space.shape)

# %%
# The fit: one component, thus one vector of entries along each axis. EBIC asks more of
# an entry than BIC, since there are many to choose from and few subjects.

model = DST2R(rank=1, l1="ebic", l2=1.0).fit(X[:120], ages[:120])
print(model.statistics_)
print(f"{model.n_parameters_} numbers for {model.coef_.size} voxels")
print(f"R² of the 30 subjects left out: {model.score(X[120:], ages[120:]):.2f}")

# %%
# Back into the whole grid, with the right affine: ``to_filename`` writes what nilearn
# or any viewer shows.

image = to_image(model.coef_, space)
image.to_filename(folder / "coefficient.nii.gz")
centre = np.argwhere(region).mean(axis=0)
print("the region's centre:", nibabel.affines.apply_affine(affine, centre), "mm")
weight = np.abs(image.get_fdata())
found = np.array([(weight * axis).sum() / weight.sum() for axis in np.indices(shape)])
print(
    "the map's centre:   ",
    nibabel.affines.apply_affine(image.affine, found).round(1),
    "mm",
)

# %%
# Three cuts through the map, over the anatomy; the line is the true region.

values = np.ma.masked_equal(image.get_fdata(), 0)
peak = np.abs(values).max()
figure, axes = plt.subplots(
    1, 3, figsize=(8.5, 3.2), layout="constrained", facecolor="black"
)
for ax, axis, name in zip(
    axes, range(3), ("sagittal", "coronal", "axial"), strict=True
):
    at = int(centre[axis])
    back, front, true = (
        np.take(volume, at, axis).T for volume in (anatomy, values, region)
    )
    ax.imshow(back, cmap="gray", origin="lower", vmin=0, vmax=140)
    shown = ax.imshow(front, cmap="RdBu_r", origin="lower", vmin=-peak, vmax=peak)
    ax.contour(true, [0.5], colors="yellow", linewidths=1)
    ax.set_axis_off()
    ax.set_title(name, color="white")
bar = figure.colorbar(shown, ax=axes, shrink=0.8)
bar.ax.tick_params(colors="white")
scratch.cleanup()
