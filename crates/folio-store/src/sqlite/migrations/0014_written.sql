-- What calls of runs write that are under way, and under which fence. Counts as long as the run has that fence and its driver lives.
CREATE TABLE written (
    space INTEGER NOT NULL,
    name  TEXT NOT NULL,
    run   INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    PRIMARY KEY (space, name, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX written_run ON written (run);
