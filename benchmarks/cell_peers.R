# PCA of tables with holes and wrong cells in R: MacroPCA of cellWise, and missMDA.
#
# Rscript cell_peers.R METHOD check   prints "ok", or why the method cannot be run.
# Rscript cell_peers.R METHOD         serves tables: a line "K ROWS COLUMNS IN OUT" of the standard input is
#                                     answered by "done", or "failed: " and why.
#
# IN holds the table as doubles, column by column. OUT holds, as doubles, column by column, the fitted
# values, the table with its holes filled, and the loadings.

words <- commandArgs(trailingOnly = TRUE)
package <- if (words[1] == "missMDA") "missMDA" else "cellWise"
if (!requireNamespace(package, quietly = TRUE)) {
  cat("R has no package", package)
  quit(status = 0)
}
if (length(words) > 1) {
  cat("ok")
  quit(status = 0)
}

by_missMDA <- function(x, k) {
  found <- missMDA::imputePCA(as.data.frame(x), ncp = k, scale = FALSE)
  full <- as.matrix(found$completeObs)
  loadings <- svd(scale(full, scale = FALSE), nu = 0, nv = k)$v
  list(fitted = as.matrix(found$fittedX), full = full, loadings = loadings)
}

# Fitted values are those of the rows with all flagged and missing cells imputed, which are better in rows
# that MacroPCA takes for bad ones than those of the cell-imputed data.
by_MacroPCA <- function(x, k) {
  pars <- list(scale = FALSE, silent = TRUE, DDCpars = list(silent = TRUE))
  found <- cellWise::MacroPCA(x, k = k, MacroPCApars = pars)
  fitted <- sweep(found$Fullimp$scoresfi %*% t(found$loadings), 2, found$center, "+")
  list(fitted = fitted, full = ifelse(is.na(x), fitted, x), loadings = found$loadings)
}

fit <- if (words[1] == "missMDA") by_missMDA else by_MacroPCA
lines <- file("stdin", "r")
while (length(line <- readLines(lines, 1)) > 0) {
  given <- strsplit(line, " ")[[1]]
  size <- as.integer(given[1:3]) # components, rows, columns
  x <- matrix(readBin(given[4], "double", size[2] * size[3]), size[2], size[3])
  x[is.nan(x)] <- NA
  dimnames(x) <- list(seq_len(nrow(x)), paste0("x", seq_len(ncol(x))))
  said <- tryCatch({
    found <- fit(x, size[1])
    stopifnot(dim(found$fitted) == dim(x), dim(found$loadings) == c(ncol(x), size[1]))
    writeBin(as.double(c(found$fitted, found$full, found$loadings)), given[5])
    "done"
  }, error = function(problem) paste("failed:", conditionMessage(problem)))
  cat("\n", gsub("\n", " ", said), "\n", sep = "")
  flush(stdout())
}
