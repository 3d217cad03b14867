"""Sparse PCA: DCA on the sparse formulations, deflation, and active columns."""
