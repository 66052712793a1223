-- Each process writes its notes some time after it made them, so their numbers are not in the order in which they were
-- made. Pages of the timeline are.
CREATE INDEX trace_at ON trace (space, at, number);
