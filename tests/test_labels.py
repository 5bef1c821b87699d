"""Labels: kept by fits, compared at predict, and given back with every result."""

import json

import pytest

from dst2r import DST2R, make_tensor_regression
from dst2r.labels import Labels, Mode

LABELS = Labels(
    x=(Mode("gene", ("ABC", "DEF")), Mode("day", ("2020-01-01",), "datetime64[ns]"), Mode("voxel", None)),
    y=(Mode("dose", (0.1, 3)),),
    sample="patient",
)


def test_json_round_trip():
    assert Labels.from_json(json.loads(json.dumps(LABELS.to_json()))) == LABELS


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "dictionary with 'sample'"),
        ({"sample": "n", "x": []}, "dictionary with 'sample'"),
        ({"sample": "n", "x": [], "y": "abc"}, "modes of y"),
        ({"sample": 3, "x": [], "y": []}, "named 3"),
        ({"sample": "n", "x": ["gene"], "y": []}, "dictionary with 'name'"),
        ({"sample": "n", "x": [{"name": 1, "labels": None}], "y": []}, "two strings"),
        ({"sample": "n", "x": [{"name": "a", "labels": "bc"}], "y": []}, "list or null"),
        ({"sample": "n", "x": [{"name": "a", "labels": [[1]]}], "y": []}, "string or a number"),
    ],
)
def test_foreign_json_is_refused(entry, message):
    with pytest.raises(ValueError, match=message):
        Labels.from_json(entry)


def test_plain_arrays_leave_no_labels():
    data = make_tensor_regression(40, (3, 2), (2,), rank=1, noise=0.1, random_state=0)
    assert DST2R().fit(data.X, data.Y).labels_ is None
