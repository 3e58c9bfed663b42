-- What jobs that are submitted by a token come to together, and by which token a job was.

ALTER TABLE token ADD COLUMN spend BIGINT NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN spend_per TEXT NOT NULL DEFAULT '';
ALTER TABLE token ADD COLUMN devices BIGINT NOT NULL DEFAULT 0;

ALTER TABLE job ADD COLUMN token BIGINT NOT NULL DEFAULT 0;
CREATE INDEX job_by_token ON job (token) WHERE token <> 0;

ALTER TABLE transfer ADD COLUMN token BIGINT NOT NULL DEFAULT 0;
