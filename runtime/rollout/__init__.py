"""Rollouts: the interpreter that walks the graph for one trajectory, with its prompts, parsers, tools and rewards."""
