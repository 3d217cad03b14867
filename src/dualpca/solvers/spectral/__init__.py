"""Solvers of the eigenproblem of X^T X: LAPACK, Gram, Krylov and Chebyshev."""
