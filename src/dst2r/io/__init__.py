"""Arrays from and to files, by suffix; lazily where the format allows it."""

from dst2r.io.reading import contents, open_array, split_spec
from dst2r.io.writing import write_array

__all__ = ["contents", "open_array", "split_spec", "write_array"]
