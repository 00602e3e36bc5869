"""released corpus → loss: the small trainer that shows a corpus can be learned from."""
