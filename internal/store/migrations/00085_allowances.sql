-- What accounts are given period after period.

CREATE TABLE allowance (
    id         INTEGER PRIMARY KEY,
    account    BIGINT  NOT NULL,
    name       TEXT    NOT NULL,
    amount     BIGINT  NOT NULL,
    per        TEXT    NOT NULL,
    starts     BIGINT  NOT NULL,
    ends       BIGINT  NOT NULL,
    carry      TEXT    NOT NULL, -- JSON
    source     TEXT    NOT NULL,
    subtree    BOOLEAN NOT NULL,
    author     BIGINT  NOT NULL,
    changed    BIGINT  NOT NULL,
    removed    BOOLEAN NOT NULL,
    through    BIGINT  NOT NULL, -- the end of the last period that was granted
    last_grant BIGINT  NOT NULL
);

ALTER TABLE grants ADD COLUMN allowance BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN carried BIGINT NOT NULL DEFAULT 0;
