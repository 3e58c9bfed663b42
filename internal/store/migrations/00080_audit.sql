-- What a command changed, before and after, as JSON; it is part of the row's hash.

ALTER TABLE log ADD COLUMN changed TEXT NOT NULL DEFAULT '';
