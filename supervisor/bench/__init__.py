"""`skipjack bench`: how fast this machine and this database are, how near the limit Skipjack is. One file a figure."""

STAMPS = "SKIPJACK_BENCH_STAMPS"
"""The variable that names the file into which the handlers of the latency note when they began."""
