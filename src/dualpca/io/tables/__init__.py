"""Tables in files: read into what the estimators take, written block by block."""

from .columns import Columns
from .read import read
from .sniff import NA_VALUES
from .table import Strings, Table, TableError
from .write import Writer, write

__all__ = ["NA_VALUES", "Columns", "Strings", "Table", "TableError", "Writer", "read", "write"]
