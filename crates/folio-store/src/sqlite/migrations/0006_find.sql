-- What entries are found by. The words for values in contexts, which no SQL can make, follow in code.

-- Tags, and words that no tag can be for values in the context: one table, so that an add touches one tree for both.
ALTER TABLE entry_tag RENAME TO entry_term;
ALTER TABLE entry_term RENAME COLUMN tag TO term;

-- What a run writes (steps, blocks of logs, summaries) is found by its page only, and everything else by an index that knows
-- what memory is filtered by. So a step whose status changes touches no index, and an add touches one.
DROP INDEX entry_list;
CREATE INDEX entry_page ON entry (page) WHERE kind IN ('log', 'step', 'summary');
CREATE INDEX entry_list ON entry
    (kind, page, place, status, type, owner, pinned, expires_at, superseded, confidence, created_seq)
    WHERE kind NOT IN ('log', 'step', 'summary');

-- What has changed since a commit, so that a list can be given as it was.
CREATE INDEX entry_changed ON entry (space, updated_seq)
    WHERE version > 1 AND kind NOT IN ('log', 'step', 'summary');
