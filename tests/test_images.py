"""Images go in and out without moving: a voxel keeps its place in millimetres."""

import json
import pickle

import numpy as np
import pytest

from dst2r import DST2R
from dst2r.images import ImageSpace, open_images, to_image

nib = pytest.importorskip("nibabel")

SHAPE = (7, 8, 6)
# Turned by 30 degrees, mirrored, with unequal voxels, and away from the origin.
TURN = np.array([[np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0], [0, 0, 1]])
AFFINE = np.eye(4)
AFFINE[:3, :3] = TURN * [-2.0, 2.5, 3.0]
AFFINE[:3, 3] = [90.0, -126.0, -72.0]


def write(path, data, affine=AFFINE, kind=nib.Nifti1Image):
    nib.save(kind(np.asarray(data), affine), path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Four images and a mask whose box is 4 × 5 × 3 at (2, 1, 3)."""
    rng = np.random.default_rng(0)
    for k in range(4):
        write(tmp_path / f"sub-{k}.nii.gz", rng.normal(size=SHAPE).astype(np.float32))
    mask = np.zeros(SHAPE, dtype=np.uint8)
    mask[2:6, 1:6, 3:6] = rng.random((4, 5, 3)) < 0.5
    mask[2, 1, 3] = mask[5, 5, 5] = 1
    write(tmp_path / "mask.nii", mask)
    return tmp_path


def data_of(path):
    return nib.load(path).get_fdata(dtype=np.float32)


def test_images_are_cropped_and_masked(folder):
    X, space = open_images(str(folder / "sub-*.nii.gz"), mask=folder / "mask.nii")
    assert X.shape == (4, 4, 5, 3)
    assert X.dtype == np.float32
    mask = data_of(folder / "mask.nii") > 0
    for k in range(4):
        whole = data_of(folder / f"sub-{k}.nii.gz")
        np.testing.assert_array_equal(X[k][space.mask], whole[mask])
        assert (X[k][~space.mask] == 0).all()
    assert space.corner == (2, 1, 3)


def test_without_a_mask_all_voxels_are_kept(folder):
    paths = [folder / "sub-2.nii.gz", str(folder / "sub-0.nii.gz")]
    X, space = open_images(paths)
    np.testing.assert_array_equal(X, [data_of(path) for path in paths])
    np.testing.assert_array_equal(space.affine, nib.load(paths[0]).affine)
    one, _ = open_images(paths[0])
    np.testing.assert_array_equal(one[0], X[0])


@pytest.mark.parametrize("voxel", [(2, 1, 3), (4, 3, 5), (5, 5, 5)])
def test_a_planted_voxel_keeps_its_place_in_millimetres(folder, voxel):
    place = AFFINE[:3, :3] @ voxel + AFFINE[:3, 3]
    data = np.zeros(SHAPE, dtype=np.float32)
    data[voxel] = 5.0
    mask = np.zeros(SHAPE, dtype=bool)
    mask[2:6, 1:6, 3:6] = True
    X, space = open_images([write(folder / "planted.nii", data)], mask=mask)
    found = np.unravel_index(X[0].argmax(), X[0].shape)
    np.testing.assert_allclose(nib.affines.apply_affine(space.affine, found), place, atol=1e-4)
    image = to_image(X[0], space)
    np.testing.assert_array_equal(image.get_fdata(), data)
    back = np.rint(np.linalg.solve(image.affine, [*place, 1.0])[:3]).astype(int)
    assert image.get_fdata()[tuple(back)] == 5.0


def test_maps_survive_a_file(folder):
    X, space = open_images(str(folder / "sub-*.nii.gz"), mask=folder / "mask.nii")
    to_image(X[1], space).to_filename(folder / "map.nii.gz")
    again, other = open_images(folder / "map.nii.gz", mask=folder / "mask.nii")
    np.testing.assert_array_equal(again[0], X[1])
    np.testing.assert_allclose(other.affine, space.affine, atol=1e-5)
    series = to_image(np.moveaxis(X, 0, 3), space)
    assert series.shape == (*SHAPE, 4)
    volumes, _ = open_images([write(folder / "series.nii", series.get_fdata().astype(np.float32))], folder / "mask.nii")
    np.testing.assert_array_equal(volumes, X)


def test_a_coefficient_becomes_a_map(folder):
    rng = np.random.default_rng(1)
    paths = [write(folder / f"s{k:02d}.nii", rng.normal(size=SHAPE).astype(np.float32)) for k in range(40)]
    X, space = open_images(paths, mask=folder / "mask.nii")
    voxel = (2, 1, 3)
    y = [data_of(path)[voxel] for path in paths]
    image = to_image(DST2R().fit(X, y).coef_, space)
    assert np.unravel_index(image.get_fdata().argmax(), SHAPE) == voxel
    outside = data_of(folder / "mask.nii") == 0
    assert (to_image(np.ones(space.mask.shape), space).get_fdata()[outside] == 0).all()


@pytest.mark.parametrize("first", [0, 1])
def test_space_survives_json(folder, first):
    _, space = open_images(str(folder / "sub-*.nii.gz"), mask=folder / "mask.nii")
    space.mask.flat[0] = first  # a mask that begins outside, and one that begins inside
    again = ImageSpace.from_json(json.loads(json.dumps(space.to_json())))
    np.testing.assert_array_equal(again.mask, space.mask)
    np.testing.assert_array_equal(again.affine, space.affine)
    assert (again.shape, again.corner) == (space.shape, space.corner)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"affine": [[1, 2], [3, 4]]}, "expected 4 × 4"),
        ({"mask_runs": [1]}, "do not make up a box"),
        ({"mask_runs": [-1, 61]}, "do not make up a box"),
        ({"mask_runs": None}, "no stored image space"),
        ({"corner": [5, 1, 3]}, "does not lie in a grid"),
        ({"shape": [7, 8]}, "does not lie in a grid"),
    ],
)
def test_foreign_json_is_refused(folder, change, message):
    _, space = open_images(str(folder / "sub-*.nii.gz"), mask=folder / "mask.nii")
    with pytest.raises(ValueError, match=message):
        ImageSpace.from_json(space.to_json() | change)
    with pytest.raises(ValueError, match="no stored image space: KeyError 'affine'"):
        ImageSpace.from_json({})


def test_lazy_images_are_read_when_needed(folder):
    pytest.importorskip("dask.array")
    pattern = str(folder / "sub-*.nii.gz")
    now, _ = open_images(pattern, mask=folder / "mask.nii")
    later, space = open_images(pattern, mask=folder / "mask.nii", lazy=True)
    assert later.chunks[0] == (1, 1, 1, 1)
    assert later.dtype == np.float32
    np.testing.assert_array_equal(later.compute(), now)
    pickle.dumps(space)  # travels to workers
    (folder / "sub-3.nii.gz").unlink()
    np.testing.assert_array_equal(later[:3].compute(), now[:3])
    with pytest.raises(FileNotFoundError, match="sub-3"):
        later.compute()


def test_scaled_integers_are_read_in_their_units(folder):
    image = nib.Nifti1Image(np.full(SHAPE, 7, dtype=np.int16), AFFINE)
    image.header.set_slope_inter(0.5, 1.0)
    nib.save(image, folder / "scaled.nii")
    X, _ = open_images(folder / "scaled.nii")
    np.testing.assert_array_equal(X[0], data_of(folder / "scaled.nii"))


def test_images_that_differ_are_named(folder):
    good = folder / "sub-0.nii.gz"
    small = write(folder / "small.nii", np.zeros((7, 8, 5), dtype=np.float32))
    with pytest.raises(ValueError, match=r"small.nii has the grid \(7, 8, 5\), .*sub-0.nii.gz has \(7, 8, 6\)"):
        open_images([good, small])
    moved = AFFINE.copy()
    moved[1, 3] += 2
    shifted = write(folder / "shifted.nii", np.zeros(SHAPE, dtype=np.float32), moved)
    with pytest.raises(ValueError, match=r"shifted.nii lies elsewhere than .*sub-0.nii.gz.*by 2 at \[1, 3\]"):
        open_images([good, shifted])
    with pytest.raises(ValueError, match=r"shifted.nii lies elsewhere"):
        open_images([good], mask=shifted)
    with pytest.raises(ValueError, match=r"small.nii has the grid"):
        open_images([good], mask=small)
    with pytest.raises(ValueError, match="the mask is empty"):
        open_images([good], mask=np.zeros(SHAPE))


def test_values_that_are_not_finite_are_named(folder):
    data = np.zeros(SHAPE, dtype=np.float32)
    data[0, 0, 0] = np.nan  # outside the mask, as SPM writes it
    path = write(folder / "spm.nii", data)
    X, _ = open_images(path, mask=folder / "mask.nii")
    assert np.isfinite(X).all()
    with pytest.raises(ValueError, match=r"spm.nii has 1 values in the mask that are not finite"):
        open_images(path)


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.95])
def test_truncated_files_are_named(folder, suffix, kept):
    rng = np.random.default_rng(0)
    path = write(folder / f"cut{suffix}", rng.normal(size=(20, 20, 20)))
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(ValueError, match=rf"cut{suffix} (is no image|cannot be read to its end)"):
        open_images(path)


def test_foreign_files_are_named(folder):
    (folder / "notes.nii").write_text("these are no voxels")
    with pytest.raises(ValueError, match=r"notes.nii is no image that nibabel can read"):
        open_images(folder / "notes.nii")
    (folder / "table.csv").write_text("a,b")
    with pytest.raises(ValueError, match=r"table.csv is no image that nibabel can read"):
        open_images(folder / "table.csv")
    flat = write(folder / "flat.nii", np.zeros((4, 4), dtype=np.float32))
    with pytest.raises(ValueError, match=r"flat.nii is no image of three dimensions"):
        open_images(flat)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        open_images(str(folder / "nobody-*.nii"))
    with pytest.raises(FileNotFoundError, match=r"nobody.nii does not exist"):
        open_images(str(folder / "nobody.nii"))
    with pytest.raises(ValueError, match="at least one path"):
        open_images([])


def test_maps_must_fit_the_box(folder):
    _, space = open_images(str(folder / "sub-*.nii.gz"), mask=folder / "mask.nii")
    with pytest.raises(ValueError, match=r"\(7, 8, 6\) does not fit the box \(4, 5, 3\)"):
        to_image(np.zeros(SHAPE), space)


def test_without_nibabel_the_remedy_is_named(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "dst2r\[images\]"'):
        open_images(str(folder / "sub-*.nii.gz"))
