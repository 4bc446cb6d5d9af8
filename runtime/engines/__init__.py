"""Engines: who generates. Token ids in, token ids and log-probabilities out."""
