-- From now on this connection hears of new jobs; see skipjack.wake() in the migrations.
LISTEN :"schema"
