"""Tasks whose inputs are text."""
