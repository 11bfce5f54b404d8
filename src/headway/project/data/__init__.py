"""Data in and out: import files, delete for good, check for leaks, write what a learner reads."""
