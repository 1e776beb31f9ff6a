-- All workers of these types are busy on this host, or it stops; and what a host that was lost left behind.
DELETE FROM skipjack.waiter
 WHERE (host = %(host)s AND type = ANY (%(types)s::text[])) OR until < now() - interval '1 minute'
RETURNING type
