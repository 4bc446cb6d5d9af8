"""Learning: advantages, losses, algorithms, batches, and the learner of one policy."""
