"""The `.mas` language: from text to a checked system and its execution graph.

`compiler.check` and `compiler.compile_file` are the way in. Nothing here imports torch, ray, transformers
or vllm, and nothing here imports `runtime`.
"""

__version__ = "0.1.0"
