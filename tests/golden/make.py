"""How the golden files of the present schema were made. Run it for a new schema only: files that are here stay.

    python tests/golden/make.py

The numbers that a file must give lie beside it as text, which no code of the package reads or writes.
"""

import json
from pathlib import Path

import numpy as np
import xarray as xr

from dst2r import DST2RCV, GramStatistics, make_tensor_regression, persistence, save
from dst2r.labels import take_labels

FOLDER = Path(__file__).parent


def text(array):
    return {"shape": list(array.shape), "hex": [float(value).hex() for value in np.ravel(array)]}


def main():
    data = make_tensor_regression(30, (3, 2), (2,), rank=1, sparsity=0.0, noise=0.1, normalize=True, random_state=2)
    coords = {"gene": ["a", "ß", "c"], "dose": [0.5, 2.0]}
    X = xr.DataArray(data.X, dims=("patient", "gene", "dose"), coords=coords)
    Y = xr.DataArray(data.Y, dims=("patient", "day"), coords={"day": np.array(["2024-01-01", "2024-01-02"], "M8[ns]")})
    model = DST2RCV((1,), cv=3, n_l1=2, l2=[0.0, 0.1], step_size=0.2).fit(X, Y)
    stem = f"schema{persistence.SCHEMA}"
    model.save(FOLDER / f"{stem}-model.dst2r")
    plain_x, plain_y, labels = take_labels(X, Y)
    stats = GramStatistics.from_arrays(plain_x, plain_y)
    save(stats, FOLDER / f"{stem}-statistics.dst2r", labels=labels)
    expected = {
        "X": text(data.X[:4]),
        "predictions": text(np.asarray(model.predict(X))[:4]),
        "coef_": text(model.coef_),
        "intercept_": text(model.intercept_),
        "test_loss": text(model.cv_results_["test_loss"]),
        "gram": text(stats.gram),
        "cross": text(stats.cross),
        "rank_": model.rank_,
        "l1_": float(model.l1_).hex(),
        "n_samples": stats.n_samples,
        "dims": ["patient", "gene", "dose", "day"],
        "labels": [["a", "ß", "c"], [0.5, 2.0], ["2024-01-01", "2024-01-02"]],
    }
    (FOLDER / f"{stem}.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
