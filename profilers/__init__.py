"""Capture: one pass per instrument over a task's steps, and what links their events."""
