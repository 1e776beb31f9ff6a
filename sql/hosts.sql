-- Supervisors of the fleet, the lost ones first.
SELECT host, name, pid, version, pools, busy, started_at, seen_at,
       extract(epoch FROM now() - seen_at)::double precision AS seconds, expires_at < now() AS expired
  FROM skipjack.host
 ORDER BY expires_at >= now(), host, name
