"""The compiler as one visible pipeline: sources -> trees -> checked system -> execution graph -> findings."""
