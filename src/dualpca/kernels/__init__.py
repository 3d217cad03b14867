"""Kernels: pairwise evaluation, feature maps, bandwidths, eigenpairs and pre-images."""
