"""The training tasks: `base` says what a task is, `catalog` lists them, one file a task holds each."""
