-- What holds in a space, as the log makes it. A space where nobody has set anything has no row.
CREATE TABLE policy (
    space       INTEGER PRIMARY KEY,
    version     INTEGER NOT NULL,
    changed_seq INTEGER NOT NULL,
    policy      TEXT NOT NULL
) STRICT;
