"""Plain PCA beyond its subspace: batches, likelihood, number of components."""
