"""Games that tasks play: the rules of Go, tree search and self-play, on the host alone."""
