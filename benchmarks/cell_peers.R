# PCA of tables with holes and wrong cells in R: cellWise's MacroPCA and cellPCA, and missMDA.
#
# Rscript cell_peers.R METHOD check          prints "ok", or why the method cannot be run.
# Rscript cell_peers.R METHOD K ROWS COLUMNS IN OUT
#
# IN holds the table as doubles, column by column. OUT holds, as doubles, column by column, the fitted
# values, the table with its holes filled, and the loadings.

words <- commandArgs(trailingOnly = TRUE)
package <- if (words[1] == "missMDA") "missMDA" else "cellWise"
if (!requireNamespace(package, quietly = TRUE)) {
  cat("R has no package", package)
  quit(status = 0)
}
if (words[1] == "cellPCA" && !exists("cellPCA", asNamespace("cellWise"))) {
  cat("cellWise", as.character(packageVersion("cellWise")), "has no cellPCA")
  quit(status = 0)
}
if (words[2] == "check") {
  cat("ok")
  quit(status = 0)
}

size <- as.integer(words[2:4]) # components, rows, columns
k <- size[1]
x <- matrix(readBin(words[5], "double", size[2] * size[3]), size[2], size[3])
x[is.nan(x)] <- NA
colnames(x) <- paste0("x", seq_len(ncol(x)))
center_plus <- function(center, scores, loadings) sweep(scores %*% t(loadings), 2, center, "+")

if (words[1] == "missMDA") {
  found <- missMDA::imputePCA(as.data.frame(x), ncp = k, scale = FALSE)
  full <- as.matrix(found$completeObs)
  fitted <- as.matrix(found$fittedX)
  loadings <- svd(scale(full, scale = FALSE), nu = 0, nv = k)$v
} else if (words[1] == "MacroPCA") {
  found <- cellWise::MacroPCA(x, k = k, MacroPCApars = list(scale = FALSE, silent = TRUE))
  loadings <- found$loadings
  fitted <- center_plus(found$center, found$Cellimp$scoresci, loadings)
  full <- ifelse(is.na(x), fitted, x)
} else {
  found <- cellWise::cellPCA(x, k)
  loadings <- found$loadings
  fitted <- center_plus(found$center, found$scores, loadings)
  full <- ifelse(is.na(x), fitted, x)
}
stopifnot(all(dim(fitted) == dim(x)), nrow(loadings) == ncol(x))
writeBin(as.double(c(fitted, full, loadings)), words[6])
