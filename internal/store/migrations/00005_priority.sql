-- A job's priority isn't kept: it follows from what has been used and how long the
-- job has waited.
ALTER TABLE job DROP COLUMN priority;
