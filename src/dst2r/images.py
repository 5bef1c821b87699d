"""NIfTI images in, cropped to a mask's box, and maps out again: nilearn and viewers see where every voxel is.

Samples are images of one grid. The model sees the smallest box around the mask, with zeros for what lies outside the
mask; an :class:`ImageSpace` remembers where the box lies.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ImageSpace", "open_images", "to_image"]

SAME_PLACE = 1e-3  # affines may differ by this many millimetres: headers hold single precision


@dataclass(frozen=True, eq=False)
class ImageSpace:
    """Where a box of voxels lies in the grid that it was cut from, and which of its voxels are in the mask.

    Attributes
    ----------
    affine : ndarray of shape (4, 4)
        From indices in the box to millimetres.
    shape : tuple of int
        Of the whole grid.
    corner : tuple of int
        Index in the grid of the box's first voxel.
    mask : ndarray of bool, of the box's shape
    """

    affine: NDArray[np.float64]
    shape: tuple[int, ...]
    corner: tuple[int, ...]
    mask: NDArray[np.bool_]

    def __post_init__(self) -> None:
        ends = [start + size for start, size in zip(self.corner, self.mask.shape, strict=False)]
        inside = all(0 <= start < end <= d for start, end, d in zip(self.corner, ends, self.shape, strict=False))
        if not len(self.shape) == len(self.corner) == self.mask.ndim == 3 or not inside:
            raise ValueError(
                f"a box of shape {self.mask.shape} at {self.corner} does not lie in a grid of shape {self.shape}."
            )
        if self.affine.shape != (4, 4) or not np.isfinite(self.affine).all():
            raise ValueError(f"the affine is {self.affine.tolist()}; expected 4 × 4 finite numbers.")

    @property
    def box(self) -> tuple[slice, ...]:
        """The box as slices of the grid."""
        return tuple(slice(start, start + d) for start, d in zip(self.corner, self.mask.shape, strict=True))

    @property
    def grid_affine(self) -> NDArray[np.float64]:
        """From indices in the whole grid to millimetres."""
        return _moved(self.affine, [-start for start in self.corner])

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary, for JSON; the mask as lengths of its runs, outside first."""
        flat = self.mask.ravel()
        turns = [0, *(np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist(), flat.size]
        runs = [end - start for start, end in pairwise(turns)]
        return {
            "affine": self.affine.tolist(),
            "shape": list(self.shape),
            "corner": list(self.corner),
            "box": list(self.mask.shape),
            "mask_runs": [0, *runs] if flat[0] else runs,
        }

    @classmethod
    def from_json(cls, entry: Any) -> Self:
        """Read what :meth:`to_json` wrote; a ValueError tells what is wrong with anything else."""
        try:
            affine = np.array(entry["affine"], dtype=np.float64)
            shape, corner, box = (tuple(map(int, entry[key])) for key in ("shape", "corner", "box"))
            runs = [int(run) for run in entry["mask_runs"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no stored image space: {type(error).__name__} {error}.") from None
        if min(runs, default=0) < 0 or len(box) != 3 or sum(runs) != box[0] * box[1] * box[2]:
            raise ValueError(f"the mask's runs do not make up a box of shape {box}.")
        flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        return cls(affine, shape, corner, flat.reshape(box))


def open_images(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], mask: Any = None, *, lazy: bool = False
) -> tuple[Any, ImageSpace]:
    """Read images as samples.

    Parameters
    ----------
    paths : path, glob pattern or sequence of paths
        A pattern's files come in the order of their names. A four-dimensional image gives one sample for each volume.
    mask : path, nibabel image or array, optional
        Its non-zero voxels are kept; by default all are.
    lazy : bool, default=False
        Give a Dask array with a chunk for each file, which is read when it is needed.

    Returns
    -------
    array : ndarray or Dask array of shape (n, x, y, z), float32
        Cropped to the mask's box; voxels of the box outside the mask are 0.
    space : ImageSpace
        For :func:`to_image`.

    Examples
    --------
    >>> from dst2r.images import open_images, to_image
    >>> X, space = open_images("bold/sub-*.nii.gz", mask="mask.nii.gz")  # doctest: +SKIP
    >>> to_image(model.coef_[..., 0], space).to_filename("coefficient.nii.gz")  # doctest: +SKIP
    """
    files = _files(paths)
    grids = [_grid(file) for file in files]
    (shape, _), affine = grids[0]
    for file, ((other, _), placed) in zip(files, grids, strict=True):
        if other != shape:
            raise ValueError(f"{file} has the grid {other}, {files[0]} has {shape}: resample them to one grid.")
        _check_place(file, placed, files[0], affine)
    space = _crop(mask, shape, affine, files[0])
    sizes = [n for (_, n), _ in grids]
    if lazy:
        return _lazy(files, sizes, space), space
    X = np.empty((sum(sizes), *space.mask.shape), dtype=np.float32)
    start = 0
    for file, n in zip(files, sizes, strict=True):
        X[start : start + n] = _read(file, space)
        start += n
    return X, space


def to_image(array: ArrayLike, space: ImageSpace) -> Any:
    """Put a map of the box back in the whole grid.

    Parameters
    ----------
    array : array-like of shape (x, y, z) or (x, y, z, k)
        Of the box's shape, for instance ``coef_[..., j]``, or the outer product of a component's three factors. Several
        maps make a four-dimensional image.
    space : ImageSpace
        As :func:`open_images` gave it.

    Returns
    -------
    nibabel.Nifti1Image
        float32; zeros outside the mask.

    Examples
    --------
    The first component of a model of images, and the coefficient for one entry of its responses:

    >>> from dst2r.images import to_image
    >>> weights, factors = model.cp_  # doctest: +SKIP
    >>> a, b, c = (factor[:, 0] for factor in factors[:3])  # doctest: +SKIP
    >>> to_image(np.einsum("i,j,k->ijk", a, b, c), space).to_filename("component1.nii.gz")  # doctest: +SKIP
    >>> to_image(model.coef_[..., 0], space).to_filename("coefficient.nii.gz")  # doctest: +SKIP
    """
    values = np.asarray(array)
    if values.shape[:3] != space.mask.shape or values.ndim > 4:
        raise ValueError(f"a map of shape {values.shape} does not fit the box {space.mask.shape} (or one more axis).")
    whole = np.zeros(space.shape + values.shape[3:], dtype=np.float32)
    whole[space.box] = values * space.mask.reshape(space.mask.shape + (1,) * (values.ndim - 3))
    return _nibabel().Nifti1Image(whole, space.grid_affine)


def _nibabel() -> Any:
    try:
        import nibabel
    except ModuleNotFoundError:
        raise ModuleNotFoundError('Images need nibabel: python -m pip install "dst2r[images]"') from None
    return nibabel


def _moved(affine: NDArray[np.float64], by: Sequence[int]) -> NDArray[np.float64]:
    """Affine of a grid whose first voxel is voxel ``by`` of this one."""
    shift = np.eye(4)
    shift[:3, 3] = by
    return affine @ shift


def _files(paths: Any) -> list[Path]:
    if isinstance(paths, str | os.PathLike):
        name = os.fspath(paths)
        paths = [name] if Path(name).exists() or not glob.has_magic(name) else sorted(glob.glob(name, recursive=True))
        if not paths:
            raise FileNotFoundError(f"no file matches {name}: check the folder and the pattern.")
    files = [Path(path) for path in paths]
    if not files:
        raise ValueError("the list of images is empty: give at least one path.")
    return files


def _load(file: Path) -> Any:
    """Header of an image; its data are not read."""
    nibabel = _nibabel()
    try:
        image = nibabel.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} does not exist.") from None
    except (OSError, EOFError, ValueError, zlib.error, nibabel.filebasedimages.ImageFileError) as error:
        raise ValueError(f"{file} is no image that nibabel can read ({_short(error)}).") from None
    if len(getattr(image, "shape", ())) not in (3, 4) or getattr(image, "affine", None) is None:
        found = getattr(image, "shape", None) or type(image).__name__
        raise ValueError(f"{file} is no image of three dimensions, nor a series of them: it is {found}.")
    return image


def _grid(file: Path) -> tuple[tuple[tuple[int, ...], int], NDArray[np.float64]]:
    """Grid and number of volumes of a file, and its affine."""
    image = _load(file)
    return (image.shape[:3], (*image.shape, 1)[3]), np.asarray(image.affine, dtype=np.float64)


def _check_place(file: Any, affine: NDArray[np.float64], first: Path, expected: NDArray[np.float64]) -> None:
    if not np.allclose(affine, expected, rtol=0, atol=SAME_PLACE):
        row, column = np.unravel_index(np.abs(affine - expected).argmax(), (4, 4))
        raise ValueError(
            f"{file} lies elsewhere than {first}: their affines differ, by {np.abs(affine - expected).max():.3g} "
            f"at [{row}, {column}]. Resample them to one grid."
        )


def _crop(mask: Any, shape: tuple[int, ...], affine: NDArray[np.float64], first: Path) -> ImageSpace:
    """The smallest box around a mask's voxels."""
    if mask is None:
        return ImageSpace(affine, shape, (0, 0, 0), np.ones(shape, dtype=bool))
    name: Any = "the mask"
    if isinstance(mask, str | os.PathLike):
        name = Path(mask)
        mask = _load(name)
    if hasattr(mask, "dataobj"):
        _check_place(name, np.asarray(mask.affine), first, affine)
        mask = _data(name, mask, (...,))
    mask = np.asarray(mask)
    mask = mask[..., 0] if mask.ndim == 4 and mask.shape[3] == 1 else mask
    if mask.shape != shape:
        raise ValueError(f"{name} has the grid {mask.shape}, {first} has {shape}: resample it to the images' grid.")
    inside = np.nan_to_num(mask) != 0
    if not inside.any():
        raise ValueError(f"{name} is empty: it has no voxel that is not 0.")
    corner, end = (tuple(int(f(where)) for where in np.nonzero(inside)) for f in (np.min, np.max))
    box = tuple(slice(a, b + 1) for a, b in zip(corner, end, strict=True))
    return ImageSpace(_moved(affine, corner), shape, corner, inside[box])


def _read(file: Path, space: ImageSpace) -> NDArray[np.float32]:
    """Volumes of a file, shape (n, x, y, z), zero outside the mask."""
    volumes = _data(file, _load(file), space.box)
    volumes = np.moveaxis(volumes.reshape(*space.mask.shape, -1), 3, 0)
    volumes = np.where(space.mask, volumes, np.float32(0))
    bad = np.count_nonzero(~np.isfinite(volumes))
    if bad:
        raise ValueError(f"{file} has {bad} values in the mask that are not finite: mask these voxels out.")
    return volumes


def _data(name: Any, image: Any, part: tuple[Any, ...]) -> NDArray[np.float32]:
    try:
        return np.asarray(image.dataobj[part], dtype=np.float32)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{name} cannot be read to its end ({_short(error)}): it may be truncated.") from None


def _short(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def _lazy(files: Sequence[Path], sizes: Sequence[int], space: ImageSpace) -> Any:
    import dask.array
    from dask.delayed import delayed

    da: Any = dask.array  # half of it ships no types
    read, shared = delayed(_read), delayed(space)
    box = space.mask.shape
    parts = [da.from_delayed(read(f, shared), (n, *box), np.float32) for f, n in zip(files, sizes, strict=True)]
    return da.concatenate(parts)
