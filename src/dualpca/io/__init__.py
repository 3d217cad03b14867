"""Files: models, tables and ONNX graphs."""
