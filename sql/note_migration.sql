-- After every migration, in its transaction.
INSERT INTO skipjack.migration (version) VALUES (:version);
