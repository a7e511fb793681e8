"""Features of a workload, one module a group of the catalogue; `wcbench.analysis.features` lists them."""
