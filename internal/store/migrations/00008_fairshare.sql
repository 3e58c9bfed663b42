-- What everybody has used in an account by work that is over: so much was left of it
-- at a time, in micro-credits at list prices. Weights of shares; 0 is 1.

CREATE TABLE share (
    account BIGINT NOT NULL,
    person  BIGINT NOT NULL,
    remains BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (account, person)
);

ALTER TABLE account ADD COLUMN weight BIGINT NOT NULL DEFAULT 0;
ALTER TABLE member ADD COLUMN weight BIGINT NOT NULL DEFAULT 0;
