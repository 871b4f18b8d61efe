"""One byte of one set of threads: the step that masks, accepting and forced text are made of."""
