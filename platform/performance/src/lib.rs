//! The performance manager: load generators, histograms, experiments, results
