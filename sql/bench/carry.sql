-- What pgbench keeps of a reply for its next call (`\gset`): the outcome to settle, and the floor. It takes the place of the
-- columns in settle_and_claim.sql; the rest of that statement stays as it is.
SELECT CASE WHEN c.id IS NULL THEN '[]'
            ELSE format('[{"id":%%s,"token":"%%s","outcome":"done","attempt": 1}]', c.id, %(token)s::text) END AS outcomes,
       coalesce(c.run_at, '-infinity') AS floor_at,
       coalesce(c.id, 0) AS floor_id
