-- Tokens by which programs say who they are to a server: their hashes, never themselves. Of no log: they are not memory, and
-- an export does not have them.

CREATE TABLE token (
    id         TEXT PRIMARY KEY,
    space      TEXT NOT NULL,
    role       TEXT NOT NULL,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;
