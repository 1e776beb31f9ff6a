-- All that a bench has made.
DROP SCHEMA IF EXISTS :"schema" CASCADE
