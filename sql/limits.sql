-- What bounds the connections of this role to this database, a row each: of the server, of the role, of the database. How
-- many it lets in, how many others hold now, and how many Skipjack holds from this host's address (this connection aside).
-- Where a bound is -1 there is none, and a superuser is bound by the server alone. To a role that may not see the sessions
-- of others, they show no backend_type and no application_name; a session without a database is none of a client.
-- Plan: pg_stat_activity once; the rest are a row each.
WITH bound (scope, most, usesysid, datid) AS (
    SELECT 'server',
           current_setting('max_connections')::integer - CASE WHEN r.rolsuper THEN 0 ELSE
               current_setting('superuser_reserved_connections')::integer
               + coalesce(current_setting('reserved_connections', true)::integer, 0) END, -- PostgreSQL 16
           NULL::oid, NULL::oid
      FROM pg_roles AS r WHERE r.rolname = session_user
     UNION ALL
    SELECT 'role', r.rolconnlimit, r.oid, NULL
      FROM pg_roles AS r WHERE r.rolname = session_user AND r.rolconnlimit >= 0 AND NOT r.rolsuper
     UNION ALL
    SELECT 'database', d.datconnlimit, NULL, d.oid
      FROM pg_database AS d, pg_roles AS r
     WHERE d.datname = current_database() AND d.datconnlimit >= 0 AND r.rolname = session_user AND NOT r.rolsuper
), held AS (
    SELECT usesysid, datid,
           coalesce(starts_with(application_name, 'skipjack ') AND client_addr IS NOT DISTINCT FROM inet_client_addr(), false)
           AS ours
      FROM pg_stat_activity
     WHERE coalesce(backend_type, 'client backend') = 'client backend' AND datid IS NOT NULL AND usesysid IS NOT NULL
       AND pid <> pg_backend_pid()
)
SELECT b.scope, b.most, count(*) FILTER (WHERE NOT h.ours) AS others, count(*) FILTER (WHERE h.ours) AS ours
  FROM bound AS b
  LEFT JOIN held AS h ON h.usesysid = coalesce(b.usesysid, h.usesysid) AND h.datid = coalesce(b.datid, h.datid)
 GROUP BY b.scope, b.most
 ORDER BY b.scope DESC
