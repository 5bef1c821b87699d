"""
Wide images as predictors
=========================

4096 pixels, 400 images: where in the picture does the response come from?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from dst2r import DST2R
from dst2r.metrics import pooled_r2

# %%
# The images are noise that is smooth in space, as pictures are. Two regions matter: a
# rectangle drives the first response up and the second down, a long bar drives the
# third.

rng = np.random.default_rng(0)
n, side = 600, 64
spectrum = 1 / (
    1 + 40 * (np.fft.fftfreq(side)[:, None] ** 2 + np.fft.fftfreq(side) ** 2)
)
noise = np.fft.ifft2(np.fft.fft2(rng.standard_normal((n, side, side))) * spectrum).real
images = noise / noise.std()

truth = np.zeros((side, side, 3))
truth[12:24, 34:54] = np.array([1.0, -1.0, 0.0])
truth[40:44, 8:40] = np.array([0.0, 0.0, 2.0])
truth *= 0.03
signal = np.tensordot(images, truth, 2)
responses = signal + 0.5 * signal.std(axis=0) * rng.standard_normal((n, 3))
train, test = slice(0, 400), slice(400, n)

# %%
# The fit reads the images row by row or through a Gram matrix, whichever is cheaper
# for this shape: it says which, and why. Neighbouring pixels are nearly collinear,
# hence a ridge: without it only some pixels of a region would stay, since the others
# tell little more.

model = DST2R(rank=2, l2=0.5).fit(images[train], responses[train])
print(model.statistics_)
print("rank", model.rank_)
print(f"{model.n_parameters_} numbers for {model.coef_.size} coefficients")
ridge = RidgeCV(np.logspace(1, 6, 21)).fit(
    images[train].reshape(400, -1), responses[train]
)
predicted = ridge.predict(images[test].reshape(n - 400, -1))
print(f"test R²: dst2r {pooled_r2(responses[test], model.predict(images[test])):.3f}")
print(f"         ridge {pooled_r2(responses[test], predicted):.3f}")

# %%
# The coefficient of each response as an image: the truth, ours and the ridge's.

maps = {
    "truth": truth,
    "DST2R": model.coef_,
    "tuned ridge": ridge.coef_.T.reshape(truth.shape),
}
figure, axes = plt.subplots(
    3, 4, figsize=(7.5, 5.6), layout="constrained", width_ratios=[1, 1, 1, 1]
)
for k in range(3):
    axes[k, 0].imshow(images[k], cmap="gray")
    axes[k, 0].set_ylabel(f"response {k + 1}")
    for ax, (name, coef) in zip(axes[k, 1:], maps.items(), strict=True):
        peak = np.abs(coef).max()
        ax.imshow(coef[:, :, k], cmap="RdBu_r", vmin=-peak, vmax=peak)
        ax.set_title(name if k == 0 else "")
axes[0, 0].set_title("an image")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
