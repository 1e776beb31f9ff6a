-- Hosts of one app write their schedules one after the other. A statement of its own, before the read: joined to it, the
-- lock was not taken where no row came back, and ten hosts starting at once met in deadlocks.
SELECT pg_advisory_xact_lock(1399548779, hashtext(%(app)s))
