"""Findings: one `Diagnostic` type, one table of codes, and the renderers (text, JSON, SARIF)."""

from drmas_dsl.diagnostics.diagnostic import Diagnostic, Edit, Help, Label, Severity

__all__ = ["Diagnostic", "Edit", "Help", "Label", "Severity"]
