-- What calls of runs write that are under way, and under which fence. Counts as long as the run has that fence and its driver lives.
-- The rows are few, and names may be longer than an index can hold.
CREATE TABLE written (
    space bigint NOT NULL,
    run   bigint NOT NULL,
    fence bigint NOT NULL,
    name  text COLLATE "C" NOT NULL
);
CREATE INDEX written_run ON written (space, run);
ALTER TABLE written ENABLE ROW LEVEL SECURITY;
ALTER TABLE written FORCE ROW LEVEL SECURITY;
CREATE POLICY of_one_space ON written USING (space = this_space()) WITH CHECK (space = this_space());
-- Whoever may use the tables that are there may use this one.
DO $$
DECLARE granted record;
BEGIN
    FOR granted IN SELECT pg_get_userbyid(acl.grantee) AS role, acl.privilege_type AS what
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) AS acl
        WHERE pg_class.oid = 'run'::regclass AND acl.grantee <> relowner AND acl.grantee <> 0
    LOOP
        EXECUTE format('GRANT %s ON written TO %I', granted.what, granted.role);
    END LOOP;
END $$;
