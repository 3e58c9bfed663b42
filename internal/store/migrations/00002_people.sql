-- Ends of people, accounts and memberships; what tokens are narrowed to; sessions.
-- Times are nanoseconds since the epoch, 0 is "never".

ALTER TABLE account ADD COLUMN ends BIGINT NOT NULL DEFAULT 0;
ALTER TABLE person ADD COLUMN ends BIGINT NOT NULL DEFAULT 0;
ALTER TABLE person ADD COLUMN retired BIGINT NOT NULL DEFAULT 0;
ALTER TABLE member ADD COLUMN ends BIGINT NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN scopes BIGINT NOT NULL DEFAULT 0; -- a set of bits; 0: all
ALTER TABLE token ADD COLUMN account BIGINT NOT NULL DEFAULT 0; -- 0: every one
ALTER TABLE token ADD COLUMN idle BIGINT NOT NULL DEFAULT 0; -- a session's; 0: a personal token
ALTER TABLE token ADD COLUMN used BIGINT NOT NULL DEFAULT 0;
