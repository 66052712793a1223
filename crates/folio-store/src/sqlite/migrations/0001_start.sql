-- Everything but `log` and `blob` can be made again from `log`.
--
-- A `place` is `space.id * 2^40 + number`: the number of a commit in `log`, of a handle elsewhere (e42, p7, r3). So one
-- B-tree finds rows by space and number, in order, and rows of one space stand together.
-- Instants are nanoseconds since 1970. Ids are the sixteen bytes of a ULID.

CREATE TABLE space (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE log (
    place  INTEGER PRIMARY KEY,
    space  INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    key    TEXT,
    actor  TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_key ON log (key, space) WHERE key IS NOT NULL;

-- Which commits changed an entry ('e') after the one that added it, and which wrote to a run ('r').
CREATE TABLE touch (
    what  TEXT NOT NULL,
    place INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (what, place, seq)
) STRICT, WITHOUT ROWID;

-- What queries filter by stands before `fields`, so that it is read without the rest of a long row.
CREATE TABLE entry (
    place       INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,
    id          BLOB NOT NULL,
    page        INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    type        TEXT,
    status      TEXT NOT NULL,
    owner       TEXT NOT NULL,
    pinned      INTEGER NOT NULL,
    expires_at  INTEGER,
    superseded  INTEGER NOT NULL,
    confidence  REAL,
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    created_seq INTEGER NOT NULL,
    updated_seq INTEGER NOT NULL,
    fields      TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_id ON entry (id, space);
-- Carries what lists filter by, so that an exact total is counted without reading a single entry. One index for both
-- questions, those for a kind and those for a page, because every index makes every add dearer.
CREATE INDEX entry_list ON entry
    (kind, page, place, status, type, owner, pinned, expires_at, superseded, confidence, created_seq);

CREATE TABLE entry_tag (
    tag   TEXT NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (tag, entry)
) STRICT, WITHOUT ROWID;

CREATE TABLE page (
    place       INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,
    id          BLOB NOT NULL,
    parent      INTEGER,
    role        TEXT NOT NULL,
    run         BLOB,
    thread      TEXT,
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    created_seq INTEGER NOT NULL,
    fields      TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX page_id ON page (id, space);
CREATE INDEX page_parent ON page (parent) WHERE parent IS NOT NULL;
CREATE INDEX page_run ON page (run) WHERE run IS NOT NULL;

CREATE TABLE link (
    space INTEGER NOT NULL,
    src   TEXT NOT NULL,
    rel   TEXT NOT NULL,
    dst   TEXT NOT NULL,
    PRIMARY KEY (space, src, rel, dst)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_dst ON link (space, dst);

CREATE TABLE blob (
    id       INTEGER PRIMARY KEY,
    space    INTEGER NOT NULL,
    hash     BLOB NOT NULL,
    size     INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    bytes    BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX blob_hash ON blob (hash, space);

-- `owner` and `fence` say who drives the run. They are no part of what the log records.
CREATE TABLE run (
    place       INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,
    id          BLOB NOT NULL,
    title       TEXT NOT NULL,
    status      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    created_seq INTEGER NOT NULL,
    owner       TEXT,
    fence       INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX run_id ON run (id, space);

-- A process that drives runs, and until when its word holds; milliseconds since 1970, by the clock of this machine.
CREATE TABLE owner (
    id    TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
