"""Speech tasks."""
