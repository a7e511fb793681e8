"""From tables to results: frozen objects with a short repr that turn into data frames; no plots, no torch."""
