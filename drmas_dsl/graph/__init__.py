"""The execution graph: its settings and records, lowering, analyses on it, and its JSON.

This is the artefact between the language and everything that runs or draws. Nothing behind it sees the tree.
"""
