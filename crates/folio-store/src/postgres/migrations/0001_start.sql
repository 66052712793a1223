-- Everything but `log`, `blob`, `trace` and `token` can be made again from `log`.
--
-- Rows of one space stand together: every key begins with `space`, and a row is shown only to a transaction that has named its
-- space (`folio.space`), whatever else a query says. What spans spaces goes through the functions at the end, and through
-- nothing else.
-- `number` is the number of a handle (e42, p7, r3), `seq` that of a commit. Instants are nanoseconds since 1970. Ids are the
-- sixteen bytes of a ULID. JSON is kept as the text that was written, because it has to come back byte by byte.

CREATE TABLE space (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- The last numbers that were given. A transaction that writes to a space begins with a lock on its row: so commits are numbered
-- without gaps, and in the order in which they become visible.
CREATE TABLE space_end (
    space   bigint PRIMARY KEY,
    head    bigint NOT NULL DEFAULT 0,
    at      bigint NOT NULL DEFAULT -9223372036854775808,
    entries bigint NOT NULL DEFAULT 0,
    pages   bigint NOT NULL DEFAULT 0,
    runs    bigint NOT NULL DEFAULT 0,
    turns   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- `packed` has the record if `record` is '{}'.
CREATE TABLE log (
    space  bigint NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    key    bytea,
    actor  text NOT NULL,
    record text NOT NULL,
    packed bytea,
    PRIMARY KEY (space, seq)
);
CREATE UNIQUE INDEX log_key ON log (space, key) WHERE key IS NOT NULL;

-- Which commits changed an entry ('e') after the one that added it, and which wrote to a run ('r').
CREATE TABLE touch (
    space  bigint NOT NULL,
    what   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (space, what, number, seq)
);

-- `packed` has the body if the entry is archived and its body was long.
CREATE TABLE entry (
    space       bigint NOT NULL,
    number      bigint NOT NULL,
    id          bytea NOT NULL,
    page        bigint NOT NULL,
    page_id     bytea NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    type        text COLLATE "C",
    status      text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    pinned      boolean NOT NULL,
    expires_at  bigint,
    superseded  boolean NOT NULL,
    confidence  double precision,
    version     bigint NOT NULL,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    created_seq bigint NOT NULL,
    updated_seq bigint NOT NULL,
    fields      text NOT NULL,
    packed      bytea,
    PRIMARY KEY (space, number)
);
CREATE UNIQUE INDEX entry_id ON entry (space, id);
CREATE INDEX entry_page ON entry (space, page) WHERE kind IN ('log', 'step', 'summary');
CREATE INDEX entry_list ON entry (space, kind, page, number) WHERE kind NOT IN ('log', 'step', 'summary');
CREATE INDEX entry_changed ON entry (space, updated_seq)
    WHERE version > 1 AND kind NOT IN ('log', 'step', 'summary');

-- Tags, and words that no tag can be for values in the context. A B-tree and not an inverted index: an operator of the latter may
-- not look before a row is known to be of the space, so it would never be used.
CREATE TABLE entry_term (
    space  bigint NOT NULL,
    term   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (space, term, number)
);

CREATE TABLE page (
    space       bigint NOT NULL,
    number      bigint NOT NULL,
    id          bytea NOT NULL,
    parent      bigint,
    role        text COLLATE "C" NOT NULL,
    run         bytea,
    thread      text COLLATE "C",
    version     bigint NOT NULL,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    created_seq bigint NOT NULL,
    fields      text NOT NULL,
    PRIMARY KEY (space, number)
);
CREATE UNIQUE INDEX page_id ON page (space, id);
CREATE INDEX page_parent ON page (space, parent) WHERE parent IS NOT NULL;
CREATE INDEX page_run ON page (space, run) WHERE run IS NOT NULL;

CREATE TABLE link (
    space bigint NOT NULL,
    src   text COLLATE "C" NOT NULL,
    rel   text COLLATE "C" NOT NULL,
    dst   text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, src, rel, dst)
);
CREATE INDEX link_dst ON link (space, dst);

CREATE TABLE blob (
    space    bigint NOT NULL,
    hash     bytea NOT NULL,
    size     bigint NOT NULL,
    encoding text COLLATE "C" NOT NULL,
    bytes    bytea NOT NULL,
    PRIMARY KEY (space, hash)
);
-- They are compressed already.
ALTER TABLE blob ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Bodies that came before whatever will name them, and when.
CREATE TABLE unclaimed (
    space bigint NOT NULL,
    hash  bytea NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (space, hash)
);

-- `owner` and `fence` say who drives the run. They are no part of what the log records.
CREATE TABLE run (
    space       bigint NOT NULL,
    number      bigint NOT NULL,
    id          bytea NOT NULL,
    title       text NOT NULL,
    status      text COLLATE "C" NOT NULL,
    created_at  bigint NOT NULL,
    created_seq bigint NOT NULL,
    owner       text COLLATE "C",
    fence       bigint NOT NULL,
    PRIMARY KEY (space, number)
);
CREATE UNIQUE INDEX run_id ON run (space, id);

CREATE TABLE policy (
    space       bigint PRIMARY KEY,
    version     bigint NOT NULL,
    changed_seq bigint NOT NULL,
    policy      text NOT NULL
);

-- What happened besides the log. `last_note` has the last number that was given.
CREATE TABLE trace (
    space     bigint NOT NULL,
    number    bigint NOT NULL,
    at        bigint NOT NULL,
    as_of     bigint NOT NULL,
    component text COLLATE "C" NOT NULL,
    turn      bytea,
    run       bytea,
    entry     bytea,
    note      text NOT NULL,
    PRIMARY KEY (space, number)
);
CREATE INDEX trace_turn ON trace (space, turn, number) WHERE turn IS NOT NULL;
CREATE INDEX trace_run ON trace (space, run, number) WHERE run IS NOT NULL;
CREATE INDEX trace_entry ON trace (space, entry, number) WHERE entry IS NOT NULL;
CREATE TABLE last_note (
    space  bigint PRIMARY KEY,
    number bigint NOT NULL
);

CREATE TABLE turn (
    space       bigint NOT NULL,
    number      bigint NOT NULL,
    id          bytea NOT NULL,
    thread      text COLLATE "C" NOT NULL,
    run         bytea,
    started_at  bigint NOT NULL,
    started_seq bigint NOT NULL,
    ended_at    bigint,
    ended_seq   bigint,
    begun       text NOT NULL,
    ended       text,
    PRIMARY KEY (space, number)
);
CREATE UNIQUE INDEX turn_id ON turn (space, id);
CREATE INDEX turn_thread ON turn (space, thread, number);
CREATE INDEX turn_run ON turn (space, run) WHERE run IS NOT NULL;

-- Where to look for what is due; the numbers in `what` are given in code.
CREATE TABLE watch (
    space  bigint NOT NULL,
    what   bigint NOT NULL,
    at     bigint NOT NULL,
    number bigint NOT NULL,
    since  bigint NOT NULL,
    PRIMARY KEY (space, what, at, number)
);

-- Up to which commit the words of a space are indexed, by which rules, how many entries that are, and how many words they have.
-- A space where nobody has searched has no row.
CREATE TABLE text_index (
    space   bigint PRIMARY KEY,
    seq     bigint NOT NULL,
    version bigint NOT NULL,
    entries bigint NOT NULL,
    length  bigint NOT NULL
);
CREATE TABLE entry_text (
    space  bigint NOT NULL,
    number bigint NOT NULL,
    length bigint NOT NULL,
    words  text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (space, number)
);
-- `weight`: how often the entry has the word, where the title counts more than a tag, and a tag more than the text.
CREATE TABLE word (
    space  bigint NOT NULL,
    word   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    weight double precision NOT NULL,
    PRIMARY KEY (space, word, number)
);

-- A process that drives runs, until when its word holds by the clock of this server, and the lock that it holds while it lives.
CREATE TABLE owner (
    id    text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL,
    lock  bigint NOT NULL
);

-- Tokens by which programs say who they are to a server: their hashes, never themselves.
CREATE TABLE token (
    id         text COLLATE "C" PRIMARY KEY,
    space      text COLLATE "C" NOT NULL,
    role       text COLLATE "C" NOT NULL,
    name       text NOT NULL,
    hash       text COLLATE "C" NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);

-- The space that a transaction has named; none if it has named none.
CREATE FUNCTION this_space() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('folio.space', true), '')::bigint $$;

-- Rows of a space are there for those who named it, and for nobody else; the owner of the tables is no exception.
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['space_end', 'log', 'touch', 'entry', 'entry_term', 'page', 'link', 'blob', 'unclaimed', 'run',
        'policy', 'trace', 'last_note', 'turn', 'watch', 'text_index', 'entry_text', 'word']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_one_space ON %I USING (space = this_space()) WITH CHECK (space = this_space())', name);
    END LOOP;
END $$;

-- Which spaces there are, and which tokens, only the owner sees, and whoever may call these functions.
ALTER TABLE space ENABLE ROW LEVEL SECURITY;
ALTER TABLE token ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION space_called(wanted text) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = folio, pg_temp
    AS $$ SELECT id FROM space WHERE name = wanted $$;

CREATE FUNCTION make_space(wanted text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = folio, pg_temp
AS $$
DECLARE found bigint;
BEGIN
    INSERT INTO space (name) VALUES (wanted) ON CONFLICT DO NOTHING;
    SELECT id INTO found FROM space WHERE name = wanted;
    PERFORM set_config('folio.space', found::text, true);
    INSERT INTO space_end (space) VALUES (found) ON CONFLICT DO NOTHING;
    RETURN found;
END $$;

CREATE FUNCTION all_spaces() RETURNS TABLE (id bigint, name text) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = folio, pg_temp
    AS $$ SELECT id, name FROM space ORDER BY id $$;

CREATE FUNCTION all_tokens() RETURNS SETOF token LANGUAGE sql STABLE SECURITY DEFINER SET search_path = folio, pg_temp
    AS $$ SELECT * FROM token ORDER BY created_at, id $$;

-- Keeps a token, in the place of one with its id, unless there are `most` others.
CREATE FUNCTION keep_token(kept token, most bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = folio, pg_temp
AS $$
BEGIN
    LOCK TABLE token IN SHARE ROW EXCLUSIVE MODE;
    IF (SELECT count(*) FROM token WHERE id <> kept.id) >= most THEN
        RETURN false;
    END IF;
    INSERT INTO token SELECT kept.*
        ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, revoked_at = excluded.revoked_at;
    RETURN true;
END $$;

REVOKE ALL ON FUNCTION space_called(text), make_space(text), all_spaces(), all_tokens(), keep_token(token, bigint) FROM PUBLIC;
