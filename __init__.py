"""Background jobs on PostgreSQL, run by one binary per host."""
