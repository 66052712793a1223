-- The newest pages of a thread, and how many it has.
CREATE INDEX page_thread ON page (space, thread, number) WHERE thread IS NOT NULL;
