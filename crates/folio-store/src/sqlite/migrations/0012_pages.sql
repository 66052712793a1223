-- The newest pages of a thread, and how many it has.
CREATE INDEX page_thread ON page (thread, role) WHERE thread IS NOT NULL;
