-- How far an account's jobs may go beyond its grants, and whether its managers were told that they do.
ALTER TABLE account ADD COLUMN overdraft BIGINT NOT NULL DEFAULT 0;
ALTER TABLE credit_level ADD COLUMN overdrawn BOOLEAN NOT NULL DEFAULT FALSE;
