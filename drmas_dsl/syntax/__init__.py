"""Text to tree: sources and spans, the abstract syntax tree, the parser with recovery, the formatter."""
