"""Arrays from and to files, by suffix; lazily where the format allows it."""

from dst2r.io.lazy import watched
from dst2r.io.reading import TABLES, contents, fetch, open_array, open_column, split_spec
from dst2r.io.writing import NAMING, check_table, named_rows, write_array, write_table, writer_of

__all__ = [
    "NAMING",
    "TABLES",
    "check_table",
    "contents",
    "fetch",
    "named_rows",
    "open_array",
    "open_column",
    "split_spec",
    "watched",
    "write_array",
    "write_table",
    "writer_of",
]
