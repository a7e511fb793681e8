"""Tasks that search: neural architectures."""
