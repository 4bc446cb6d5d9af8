"""A compiled system as text, Mermaid, DOT and SVG. Everything here reads the execution graph and nothing else."""
