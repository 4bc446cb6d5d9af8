"""Where questions come from: files, the hub, generators; and rows made of them that are read when they are asked for."""
