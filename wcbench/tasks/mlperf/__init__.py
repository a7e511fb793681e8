"""Tasks of MLPerf Training that AIBench does not have."""
