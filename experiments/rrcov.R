# Robust PCA of the R package rrcov, one request a line on standard input.
#
# A request is: method, components, seed, rows, columns, input file, output file, and how often a short
# fit is timed, separated by tabs.
# The input file holds the matrix as doubles, column by column. The output file holds, as doubles:
# seconds, components found, the cut-offs of the score and of the orthogonal distance, then the centre,
# the loadings column by column, and for every row its flag (1: outlier), its orthogonal and its score
# distance. Only the fit is timed. The answer on standard output is "ok" or "error: ...".

suppressMessages(library(rrcov))

# By default (mcd = TRUE) PcaHubert is the plain MCD where the data have at most kmax columns.
fits <- list(
  "PcaHubert 0.5" = function(x, k) PcaHubert(x, k = k, kmax = max(10, k), alpha = 0.5),
  "PcaHubert 0.5, mcd=FALSE" = function(x, k)
    PcaHubert(x, k = k, kmax = max(10, k), alpha = 0.5, mcd = FALSE),
  "PcaHubert" = function(x, k) PcaHubert(x, k = k, kmax = max(10, k)),
  "PcaLocantore" = function(x, k) PcaLocantore(x, k = k),
  "PcaGrid" = function(x, k) PcaGrid(x, k = k)
)

short <- 0.1 # seconds below which a fit is timed several times and the median taken

timed <- function(fit, x, k, seed) {
  set.seed(seed)
  as.numeric(system.time(found <<- suppressWarnings(fit(x, k)))["elapsed"])
}

answer <- function(request) {
  words <- strsplit(request, "\t", fixed = TRUE)[[1]]
  fit <- fits[[words[1]]]
  size <- as.integer(words[2:5]) # components, seed, rows, columns
  x <- matrix(readBin(words[6], "double", size[3] * size[4]), size[3], size[4])
  seconds <- timed(fit, x, size[1], size[2])
  if (seconds < short && words[8] != "1") {
    again <- as.integer(words[8]) - 1
    seconds <- median(c(seconds, replicate(again, timed(fit, x, size[1], size[2]))))
  }
  out <- c(
    seconds, ncol(found@loadings), found@cutoff.sd, found@cutoff.od,
    as.vector(found@center), as.vector(found@loadings),
    as.numeric(!found@flag), found@od, found@sd
  )
  writeBin(as.double(out), words[7])
}

requests <- file("stdin", "r")
cat(sprintf("R %s.%s, rrcov %s, BLAS %s\n", R.version$major, R.version$minor,
            packageVersion("rrcov"), basename(extSoftVersion()["BLAS"])))
flush(stdout())
while (length(request <- readLines(requests, n = 1)) > 0) {
  said <- tryCatch({ answer(request); "ok" },
                   error = function(e) paste("error:", gsub("\n", " ", conditionMessage(e))))
  cat(said, "\n", sep = "")
  flush(stdout())
}
