"""The tests: a folder for each package of src, and what they share."""
