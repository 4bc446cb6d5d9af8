"""Finding passages: a BM25 index over a corpus, and a server of the usual retrieval protocol."""
