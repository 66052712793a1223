-- Turns. Everything in it can be made again from `log`. `begun` and `ended` are what the log says of the beginning and the
-- end of a turn; the columns before them are what lists filter by.
CREATE TABLE turn (
    place       INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,
    id          BLOB NOT NULL,
    thread      TEXT NOT NULL,
    run         BLOB,
    started_at  INTEGER NOT NULL,
    started_seq INTEGER NOT NULL,
    ended_at    INTEGER,
    ended_seq   INTEGER,
    begun       TEXT NOT NULL,
    ended       TEXT
) STRICT;
CREATE UNIQUE INDEX turn_id ON turn (id, space);
CREATE INDEX turn_thread ON turn (thread, place);
CREATE INDEX turn_run ON turn (run) WHERE run IS NOT NULL;
