"""What benchmarks/power.py plays: worlds, the shipped loop, the tests and routers beside it, and the summary."""
