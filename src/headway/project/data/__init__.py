"""Data in and out: import files, delete rows, check for leaks, write the learner's input."""
