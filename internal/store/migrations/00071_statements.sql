-- What was posted on each day (UTC), summed: what statements are made of, since a month
-- of them would else be read posting by posting. Every row follows from transfer, in the
-- same transaction; croft ledger verify compares them.

-- By account and grant: 0 is what an account posted beyond its grants.
CREATE TABLE money_day (
    account  BIGINT NOT NULL,
    day      BIGINT NOT NULL, -- since the epoch
    grant_id BIGINT NOT NULL,
    given    BIGINT NOT NULL,
    aside    BIGINT NOT NULL, -- set aside, less what was charged or returned
    spent    BIGINT NOT NULL, -- charged, less what was corrected or refunded
    expired  BIGINT NOT NULL,
    PRIMARY KEY (account, day, grant_id)
);
CREATE INDEX money_day_grant ON money_day (grant_id, day) WHERE grant_id <> 0;

-- What was spent, by attempt: job 0 is what was reserved and not used.
CREATE TABLE spent_day (
    account  BIGINT NOT NULL,
    day      BIGINT NOT NULL,
    person   BIGINT NOT NULL,
    job      BIGINT NOT NULL,
    attempt  BIGINT NOT NULL,
    grant_id BIGINT NOT NULL,
    spent    BIGINT NOT NULL,
    lost     BIGINT NOT NULL, -- what an attempt cost beyond its deposit: the platform's
    PRIMARY KEY (account, day, person, job, attempt, grant_id)
);
CREATE INDEX spent_day_reserved ON spent_day (account) WHERE job = 0;

INSERT INTO money_day (account, day, grant_id, given, aside, spent, expired)
SELECT account, at / 86400000000000, grant_id,
    SUM(CASE WHEN kind = 'grant' THEN amount ELSE 0 END),
    SUM(CASE WHEN kind = 'correct' OR kind = 'deposit' AND source NOT LIKE 'deposit:%' THEN amount WHEN kind IN ('charge', 'return') THEN -amount ELSE 0 END),
    SUM(CASE WHEN kind = 'charge' THEN amount WHEN kind IN ('correct', 'refund') THEN -amount ELSE 0 END),
    SUM(CASE WHEN kind = 'expire' OR kind IN ('return', 'refund') AND target = 'expired' THEN amount ELSE 0 END)
FROM transfer WHERE account <> 0 AND kind <> 'waste' GROUP BY 1, 2, 3;

INSERT INTO spent_day (account, day, person, job, attempt, grant_id, spent, lost)
SELECT account, at / 86400000000000, person, job, attempt, grant_id,
    SUM(CASE WHEN kind = 'charge' THEN amount WHEN kind IN ('correct', 'refund') THEN -amount ELSE 0 END),
    SUM(CASE WHEN kind = 'waste' THEN amount ELSE 0 END)
FROM transfer WHERE account <> 0 AND (kind IN ('charge', 'correct', 'refund') OR kind = 'waste' AND target = 'waste:ending' AND job <> 0)
GROUP BY 1, 2, 3, 4, 5, 6;

-- Everything that a sum of an account's postings needs.
DROP INDEX transfer_account;
CREATE INDEX transfer_account ON transfer (account, at, kind, amount) WHERE account <> 0;
CREATE INDEX job_ended ON job (account, ended) WHERE ended <> 0;
CREATE INDEX tile_reserved ON tile (account) WHERE cause = 'reserved';
