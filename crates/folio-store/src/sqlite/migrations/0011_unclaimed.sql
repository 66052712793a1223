-- Bodies that came before whatever will name them, and when: parts of a long text that is still being read. What nobody has
-- claimed after a while was left by a program that ended in between.
CREATE TABLE unclaimed (
    space INTEGER NOT NULL,
    hash  BLOB NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (space, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX unclaimed_at ON unclaimed (space, at);
