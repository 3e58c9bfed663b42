-- Above which cost a job that is submitted by a token waits for its user's approval.

ALTER TABLE token ADD COLUMN ask_above BIGINT NOT NULL DEFAULT 0;
