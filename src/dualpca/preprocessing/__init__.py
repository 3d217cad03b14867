"""Statistics of columns: holes, centres and scales."""
