-- Entries whose time ends, or has ended without anybody having noted it: what whoever notes it looks for.
CREATE TABLE ending (
    space INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (space, at, entry)
) STRICT, WITHOUT ROWID;

INSERT INTO ending (space, at, entry)
SELECT space, expires_at, place FROM entry
WHERE expires_at IS NOT NULL AND pinned = 0 AND status <> 'archived';
