-- Accounts are retired, not deleted. What was said of a grant's end is kept beside
-- its end, which is sooner where the account ends before that.
ALTER TABLE account ADD COLUMN retired BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN own_end BIGINT NOT NULL DEFAULT 0;
UPDATE grants SET own_end = ends;
