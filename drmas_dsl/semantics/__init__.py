"""Meaning: functions and types, names and inheritance, settings, prompts, and the checks on all of them."""
