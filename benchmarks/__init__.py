"""Slow evidence: every benchmark runs what it is compared with in the same run, and writes what comes out."""
