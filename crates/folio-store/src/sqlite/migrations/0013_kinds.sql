-- The same indexes, with each kind compared for itself: for a list of three SQLite makes a table whenever it writes a row.
DROP INDEX entry_page;
DROP INDEX entry_list;
DROP INDEX entry_changed;
CREATE INDEX entry_page ON entry (page) WHERE kind = 'log' OR kind = 'step' OR kind = 'summary';
CREATE INDEX entry_list ON entry
    (kind, page, place, status, type, owner, pinned, expires_at, superseded, confidence, created_seq)
    WHERE kind <> 'log' AND kind <> 'step' AND kind <> 'summary';
CREATE INDEX entry_changed ON entry (space, updated_seq)
    WHERE version > 1 AND kind <> 'log' AND kind <> 'step' AND kind <> 'summary';
