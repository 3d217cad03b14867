"""Files: models, tables and ONNX graphs."""

from .models import ModelFileError, load, read_header, save

__all__ = ["ModelFileError", "load", "read_header", "save"]
