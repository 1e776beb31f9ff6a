-- Transactions that were committed in this database, by whomever; a session tells of its own within a second or so.
SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()
