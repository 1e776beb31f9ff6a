-- Transactions that were committed in this database, by whomever, and tables that autovacuum has seen to; a session tells of
-- its own within a second or so.
SELECT xact_commit, (SELECT coalesce(sum(autovacuum_count + autoanalyze_count), 0) FROM pg_stat_all_tables)
  FROM pg_stat_database
 WHERE datname = current_database()
