"""Tasks whose inputs are images or video."""
