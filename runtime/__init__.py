"""The runtime: reads an execution graph, rolls it out, trains its policies and evaluates them, on Ray.

It sees nothing of the language but the graph, its settings and its records (`drmas_dsl.graph`).
"""
