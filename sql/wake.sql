-- Tells idle workers on any host that jobs of these types are ready again.
SELECT t.type FROM unnest(%(types)s::text[]) AS t (type), LATERAL skipjack.wake(t.type, now()) AS told
