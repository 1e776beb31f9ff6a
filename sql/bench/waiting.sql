-- How many sessions of these names have an answer and wait.
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = ANY (%(names)s) AND state = 'idle'
