"""Functions to be learned whose complexity is known: sums of smooth functions, layers of them, hierarchies, parities."""
