-- What was put away grows with the years, and lists look at what is there: they find it here without reading the rest.
CREATE INDEX entry_there ON entry (space, kind, number) WHERE status <> 'archived' AND kind NOT IN ('log', 'step', 'summary');
CREATE INDEX entry_pinned ON entry (space, number) WHERE pinned;
-- No name is too long for its hash; names may be too long for an index.
DROP INDEX turn_thread;
DROP INDEX page_thread;
ALTER TABLE turn ADD COLUMN thread_hash bigint GENERATED ALWAYS AS (hashtextextended(thread, 0)) STORED;
ALTER TABLE page ADD COLUMN thread_hash bigint GENERATED ALWAYS AS (hashtextextended(thread, 0)) STORED;
CREATE INDEX turn_thread ON turn (space, thread_hash, number);
CREATE INDEX page_thread ON page (space, thread_hash, number) WHERE thread IS NOT NULL;
