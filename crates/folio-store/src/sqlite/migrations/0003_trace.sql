-- What happened besides the log: questions, refusals, warnings, decisions. Kept for a while only, and does not follow from
-- the log. `place` counts up in each space; `as_of` is the last commit that whoever made the note knew of.

CREATE TABLE trace (
    place     INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    as_of     INTEGER NOT NULL,
    component TEXT NOT NULL,
    turn      BLOB,
    run       BLOB,
    entry     BLOB,
    note      TEXT NOT NULL
) STRICT;
CREATE INDEX trace_turn ON trace (turn, place) WHERE turn IS NOT NULL;
CREATE INDEX trace_run ON trace (run, place) WHERE run IS NOT NULL;
CREATE INDEX trace_entry ON trace (entry, place) WHERE entry IS NOT NULL;
