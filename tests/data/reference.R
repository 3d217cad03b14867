# Reference values of rotations, limits and shares, written once: Rscript tests/data/reference.R > tests/data/reference.json
# R 4.2.2; FactoMineR 2.7 for cos2, ctr and estim_ncp.
library(jsonlite)
library(FactoMineR)

rotations <- function(L) {
  L <- unclass(L)
  v <- varimax(L)
  q <- varimax(L, normalize = FALSE)
  p <- promax(L)
  list(loadings = L, varimax = unclass(v$loadings), varimax_rotmat = v$rotmat,
       raw_varimax_rotmat = q$rotmat, promax = unclass(p$loadings), promax_rotmat = p$rotmat)
}

principal <- function(data, k) {
  e <- eigen(cor(data))
  e$vectors[, 1:k] %*% diag(sqrt(e$values[1:k]))
}

X <- as.matrix(mtcars)
pca <- PCA(X, ncp = 3, graph = FALSE)  # scaled by the standard deviation with divisor n
gcv <- estim_ncp(X, ncp.min = 0, ncp.max = 9, scale = TRUE, method = "GCV")

# Jackson and Mudholkar (1979), and Box (1954), of the variances that three components leave.
left <- eigen(cor(X))$values[4:11]
t1 <- sum(left); t2 <- sum(left^2); t3 <- sum(left^3)
h <- 1 - 2 * t1 * t3 / (3 * t2^2)
levels <- c(0.95, 0.99)

result <- list(
  rotations = list(
    ability = rotations(loadings(factanal(factors = 2, covmat = ability.cov, rotation = "none"))),
    harman = rotations(loadings(factanal(factors = 4, covmat = Harman74.cor, rotation = "none"))),
    cars = rotations(principal(mtcars, 3)),
    arrests = rotations(principal(USArrests, 2))
  ),
  # Printed by example(ability.cov).
  factanal = unclass(loadings(factanal(factors = 2, covmat = ability.cov))),
  factanal_promax = unclass(loadings(factanal(factors = 2, covmat = ability.cov, rotation = "promax"))),
  cars = list(
    data = unname(X), eigenvalues = unname(pca$eig[, 1]),
    row_cos2 = unname(pca$ind$cos2), row_ctr = unname(pca$ind$contrib / 100),
    variable_cos2 = unname(pca$var$cos2), variable_ctr = unname(pca$var$contrib / 100),
    gcv = unname(gcv$criterion), gcv_ncp = gcv$ncp
  ),
  limits = list(
    levels = levels, left = left,
    t2 = 3 * (32^2 - 1) / (32 * (32 - 3)) * qf(levels, 3, 32 - 3),
    jackson = t1 * (qnorm(levels) * sqrt(2 * t2 * h^2) / t1 + 1 + t2 * h * (h - 1) / t1^2)^(1 / h),
    box = t2 / t1 * qchisq(levels, t1^2 / t2)
  )
)
cat(toJSON(result, digits = 10, auto_unbox = FALSE, pretty = FALSE), "\n")
