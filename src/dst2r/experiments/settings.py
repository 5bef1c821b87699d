"""The experiments, one line for each setting, and the figures that the paper prints."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dst2r.simulation import TensorRegression, make_tensor_regression


@dataclass(frozen=True)
class Design:
    """One simulated setting; give `noise` or `snr`.

    Attributes
    ----------
    x_shape, y_shape : tuple of int
    rank : int
        Number of components.
    zeros : float
        Share of zeros in every factor vector.
    n_samples : int
    noise : float or None
        Standard deviation of the noise.
    snr : float or None
        Signal-to-noise ratio.
    normalize : bool
        Factor vectors of unit norm.
    """

    x_shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    rank: int
    zeros: float
    n_samples: int = 1000
    noise: float | None = 1.0
    snr: float | None = None
    normalize: bool = False

    @property
    def problem(self) -> str:
        """What the random numbers depend on: the same data but for their noise have the same name."""
        shapes = "-".join("x".join(map(str, shape)) for shape in (self.x_shape, self.y_shape))
        return f"{shapes}-R{self.rank}-z{self.zeros:g}-n{self.n_samples}"

    @property
    def name(self) -> str:
        """Of the files that belong to the setting."""
        level = f"snr{self.snr:g}" if self.snr is not None else f"noise{self.noise:g}"
        return f"{self.problem}-{level}-{'normalized' if self.normalize else 'raw'}"

    @property
    def label(self) -> str:
        """For people."""
        return f"R = {self.rank}, {self.zeros:.0%} zeros".replace("%", " %")

    @property
    def level(self) -> str:
        """The noise, for people."""
        return f"SNR {self.snr:g}" if self.snr is not None else f"σ = {self.noise:g}"

    def data_seed(self, seed: int, repeat: int) -> int:
        """Seed of one data set, from nothing but the run's seed, the problem's name and the number of the repeat."""
        key = int.from_bytes(hashlib.sha256(self.problem.encode()).digest()[:8], "big")
        return int(np.random.SeedSequence([seed, key, repeat]).generate_state(1, np.uint64)[0])

    def draw(self, data_seed: int) -> TensorRegression:
        """Simulate a data set."""
        return make_tensor_regression(
            self.n_samples,
            self.x_shape,
            self.y_shape,
            rank=self.rank,
            sparsity=self.zeros,
            noise=self.noise,
            snr=self.snr,
            normalize=self.normalize,
            random_state=data_seed,
        )


@dataclass(frozen=True)
class Experiment:
    """Settings, and the methods that are run on each.

    Attributes
    ----------
    name : str
        Of its files.
    title : str
    designs : tuple of Design
    methods : tuple of str
        Keys of ``methods.METHODS``.
    fixed : bool
        Whether noise and factors belong to the experiment, so that they cannot be chosen.
    """

    name: str
    title: str
    designs: tuple[Design, ...]
    methods: tuple[str, ...]
    fixed: bool = False

    def at(self, *, noise: float | None, snr: float | None, normalize: bool) -> Self:
        """Return the experiment at another noise level, with raw or normalised factors."""
        designs = tuple(replace(d, noise=noise, snr=snr, normalize=normalize) for d in self.designs)
        return replace(self, designs=designs)


@dataclass(frozen=True)
class Printed:
    """What the paper prints for a method in a setting; the standard error is of the error."""

    error: float
    se: float
    tpr: float
    fpr: float


CUBE, SMALL_CUBE, SQUARE = (8, 8, 8), (4, 4, 4), (4, 4)
RIVALS = ("sparse_ols", "store", "env", "env_p", "holrr", "cp_ridge", "ols")
ALL = (*RIVALS, "printed", "dst2r", "oracle")
EPSILONS = (0.01, 0.05, 0.1, 0.15, 0.5, 1.0)

TABLE1 = Experiment(
    "table1",
    "Table 1: 8×8×8 predictors, 4×4×4 responses",
    (
        Design(CUBE, SMALL_CUBE, rank=2, zeros=0.2),
        Design(CUBE, SMALL_CUBE, rank=2, zeros=0.5),
        Design(CUBE, SMALL_CUBE, rank=10, zeros=0.2),
        Design(CUBE, SMALL_CUBE, rank=10, zeros=0.5),
    ),
    ALL,
)
TABLE2 = Experiment(
    "table2",
    "Table 2: 8×8×8 predictors, 4×4 responses",
    (
        Design(CUBE, SQUARE, rank=5, zeros=0.2),
        Design(CUBE, SQUARE, rank=5, zeros=0.5),
    ),
    ALL,
)
FIGURE2 = Experiment(
    "figure2",
    "Figure 2: step size, 16×16 predictors, 4×4 responses",
    (Design((16, 16), SQUARE, rank=2, zeros=0.5),),  # the paper does not tell the rank
    tuple(f"{stage}_eps_{epsilon:g}" for stage in ("printed", "dst2r") for epsilon in EPSILONS),
)
LANDSCAPE = Experiment(
    "landscape",
    "Landscape: error over that of the oracle",
    tuple(
        Design(CUBE, SMALL_CUBE, rank=rank, zeros=zeros, noise=None, snr=snr, normalize=True)
        for snr in (0.1, 1.0, 10.0)
        for zeros in (0.2, 0.5, 0.8)
        for rank in (2, 5, 10)
    ),
    ALL,
    fixed=True,
)
GROWTH = Experiment(
    "growth",
    "Greedy against corrected as the rank grows",
    tuple(
        Design(CUBE, SMALL_CUBE, rank=rank, zeros=0.5, noise=None, snr=10.0, normalize=True)
        for rank in (1, 2, 3, 5, 7, 10, 15)
    ),
    ("printed", "final", "dst2r", "oracle"),
    fixed=True,
)
SWEEP = Experiment(
    "sweep",
    "Which σ gives the printed errors?",
    tuple(
        replace(design, noise=noise)
        for design in TABLE1.designs + TABLE2.designs
        for noise in (0.0625, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0)
    ),
    ("sparse_ols", "store", "env", "holrr", "printed", "dst2r"),
    fixed=True,
)

# What a name on the command line runs.
COMMANDS: dict[str, tuple[Experiment, ...]] = {
    "table1": (TABLE1,),
    "table2": (TABLE2,),
    "figure2": (FIGURE2,),
    "all": (TABLE1, TABLE2, FIGURE2),
    "landscape": (LANDSCAPE, GROWTH),
    "sweep": (SWEEP,),
}

# The paper's tables by (number of response modes, rank, zeros). Its "DST2R" stands beside both of ours.
PRINTED: dict[tuple[int, int, float], dict[str, Printed]] = {
    (3, 2, 0.2): {
        "sparse_ols": Printed(56.58, 2.19, 0.95, 0.01),
        "store": Printed(3.53, 0.12, 1.00, 0.00),
        "env": Printed(6.24, 0.15, 1.00, 0.00),
        "holrr": Printed(4.30, 0.14, 1.00, 1.00),
        "dst2r": Printed(1.10, 0.10, 1.00, 0.00),
    },
    (3, 2, 0.5): {
        "sparse_ols": Printed(60.78, 2.21, 0.99, 0.13),
        "store": Printed(3.94, 0.14, 1.00, 0.00),
        "env": Printed(6.96, 0.12, 1.00, 0.00),
        "holrr": Printed(4.75, 0.14, 1.00, 1.00),
        "dst2r": Printed(1.16, 0.10, 1.00, 0.00),
    },
    (3, 10, 0.2): {
        "sparse_ols": Printed(62.34, 1.98, 0.91, 0.005),
        "store": Printed(3.34, 0.14, 1.00, 0.00),
        "env": Printed(7.97, 0.13, 1.00, 0.00),
        "holrr": Printed(5.65, 0.10, 1.00, 1.00),
        "dst2r": Printed(1.23, 0.09, 1.00, 0.00),
    },
    (3, 10, 0.5): {
        "sparse_ols": Printed(65.89, 2.04, 0.93, 0.09),
        "store": Printed(3.45, 0.12, 1.00, 0.00),
        "env": Printed(7.15, 0.13, 1.00, 1.00),
        "holrr": Printed(5.61, 0.10, 1.00, 1.00),
        "dst2r": Printed(1.28, 0.10, 1.00, 0.00),
    },
    (2, 5, 0.2): {
        "sparse_ols": Printed(42.14, 1.34, 0.99, 0.00),
        "store": Printed(2.14, 0.11, 1.00, 0.00),
        "env": Printed(7.63, 0.15, 1.00, 0.00),
        "holrr": Printed(4.24, 0.14, 1.00, 1.00),
        "dst2r": Printed(1.33, 0.09, 1.00, 0.00),
    },
    (2, 5, 0.5): {
        "sparse_ols": Printed(44.78, 1.26, 0.99, 0.13),
        "store": Printed(3.19, 0.11, 1.00, 0.00),
        "env": Printed(8.27, 0.11, 1.00, 0.00),
        "holrr": Printed(5.32, 0.14, 1.00, 1.00),
        "dst2r": Printed(1.24, 0.12, 1.00, 0.00),
    },
}
SAME_IN_PAPER = {"printed": "dst2r", "env_p": "env"}


def printed(design: Design, method: str) -> Printed | None:
    """Return the paper's figures for a method in a setting of its tables, if it has any."""
    if design.x_shape != CUBE or design.n_samples != 1000:
        return None
    modes = len(design.y_shape) if design.y_shape == (4,) * len(design.y_shape) else -1
    return PRINTED.get((modes, design.rank, design.zeros), {}).get(SAME_IN_PAPER.get(method, method))
