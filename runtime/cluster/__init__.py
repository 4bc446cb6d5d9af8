"""The cluster: Ray actors, placement, weight sync and supervision."""
