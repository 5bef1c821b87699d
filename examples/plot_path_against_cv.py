"""
The path against cross-validation
=================================

Two ways to choose the penalty: a criterion along one path, or the loss on samples
that were left out.
"""

import matplotlib.pyplot as plt

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.metrics import relative_error, selection_rates
from dst2r.plotting import CVDisplay, RegularizationPathDisplay

# %%
# Data with a known answer: rank 3, six of ten entries in every factor zero.

data = make_tensor_regression(
    300,
    (10, 10),
    (10,),
    rank=3,
    sparsity=0.6,
    normalize=True,
    noise=0.3,
    random_state=1,
)

# %%
# **The path.** One fit, all samples, one rank. Each point is a model; the line is the
# criterion (BIC, its distance from the least), the dashes count the numbers that the
# model needs, and the mark is the choice.

by_bic = DST2R(rank=3).fit(data.X, data.Y)

# %%
# **Cross-validation.** Five folds, several ranks at once, a curve each. The circle is
# the least mean loss, the diamond the smallest model within one standard error of it.

by_cv = DST2RCV(ranks=range(1, 6)).fit(data.X, data.Y)
by_one_se = DST2RCV(ranks=range(1, 6), rule="1se").fit(data.X, data.Y)

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
RegularizationPathDisplay.from_estimator(by_bic, ax=axes[0])
CVDisplay.from_estimator(by_cv, ax=axes[1])

# %%
# What they chose, and how far each is from the truth. Cross-validation looks for good
# predictions, and an entry too many costs it little; BIC and the one-standard-error
# rule ask every entry to pay for itself.

for name, model in {
    "BIC, rank given": by_bic,
    "CV, min": by_cv,
    "CV, 1 SE": by_one_se,
}.items():
    rates = selection_rates(model.cp_, data.cp)
    error = relative_error(model.coef_, data.coef)
    print(f"{name:16s} rank {model.rank_}  numbers {model.n_parameters_}", end="  ")
    print(f"error {error:.3f}", end="  ")
    print(f"found {rates.tpr:.0%}  wrongly kept {rates.fpr:.0%}")

# %%
# The path can also show single coefficients, against the penalty or against the
# weight ‖B‖₁.

RegularizationPathDisplay.from_estimator(by_bic, values="entries", along="weight")
