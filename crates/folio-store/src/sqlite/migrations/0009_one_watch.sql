-- Where to look for what ends is where to look for what is due: one table, so that an add touches one tree for both. More
-- numbers in `what`: 7 no observation, its end not noted; 8 an observation whose end was noted.
UPDATE watch SET what = 8 WHERE what = 1 AND at < 9223372036854775807
    AND NOT EXISTS (SELECT 1 FROM ending WHERE ending.space = watch.space AND ending.at = watch.at AND ending.entry = watch.place);

INSERT INTO watch (space, what, at, place, since)
SELECT ending.space, 7, ending.at, ending.entry,
       CASE WHEN entry.updated_at = entry.expires_at THEN entry.created_at ELSE entry.updated_at END
FROM ending CROSS JOIN entry ON entry.place = ending.entry
WHERE entry.kind <> 'observation' OR json_extract(entry.fields, '$.erased') IS NOT NULL;

DROP TABLE ending;
