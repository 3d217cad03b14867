"""What plain PCA adds to a subspace: merging of batches, likelihood, number of components."""
