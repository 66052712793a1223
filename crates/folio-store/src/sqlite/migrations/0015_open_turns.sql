-- Turns that have not ended are few among all that were; lists find them here without reading the rest.
CREATE INDEX turn_open ON turn (place) WHERE ended IS NULL;
