-- A notification and nothing else.
NOTIFY :"schema"
