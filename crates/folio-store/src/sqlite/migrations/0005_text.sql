-- Up to which commit the words of a space are indexed, and by which rules. A space where nobody has searched has no row.
-- The terms of its entries are in `entry_text_<space>`, an FTS5 table that is made with the row: a table for each space,
-- so that what one space holds has no say in how well something fits in another.
CREATE TABLE text_index (
    space   INTEGER PRIMARY KEY,
    seq     INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT;
