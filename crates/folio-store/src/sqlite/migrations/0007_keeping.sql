-- Where to look for what is due, so that nobody has to look at everything. Made from the entries; the numbers in `what`
-- are given in code: 1 live, 2 resolved, 3 ending, 4 personal, 5 archived, 6 tombstone.
CREATE TABLE watch (
    space INTEGER NOT NULL,
    what  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    place INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (space, what, at, place)
) STRICT, WITHOUT ROWID;

INSERT INTO watch (space, what, at, place, since)
SELECT space, 1, CASE WHEN pinned THEN 9223372036854775807 ELSE coalesce(expires_at, 9223372036854775807) END, place,
       CASE WHEN updated_at = expires_at THEN created_at ELSE updated_at END
FROM entry WHERE kind = 'observation' AND status <> 'archived';

INSERT INTO watch (space, what, at, place, since)
SELECT space, 2, updated_at, place, CASE WHEN updated_at = expires_at THEN created_at ELSE updated_at END
FROM entry WHERE kind = 'observation' AND status = 'resolved';

INSERT INTO watch (space, what, at, place, since)
SELECT space, 3, expires_at, place, CASE WHEN updated_at = expires_at THEN created_at ELSE updated_at END
FROM entry WHERE kind NOT IN ('observation', 'step') AND status <> 'archived' AND expires_at IS NOT NULL AND NOT pinned;

INSERT INTO watch (space, what, at, place, since)
SELECT space, 5, updated_at, place, CASE WHEN updated_at = expires_at THEN created_at ELSE updated_at END
FROM entry WHERE status = 'archived' AND octet_length(json_extract(fields, '$.body')) > 512;

-- Bodies of archived entries, and records of the commits that added them, compressed. The rows that they belong to have
-- the rest: fields without a body, a record that says nothing.
CREATE TABLE packed_entry (
    place INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE packed_log (
    place INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;
