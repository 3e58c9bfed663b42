-- Periods whose books are closed, and what is kept of them: statements of a closed period
-- are made of this alone, whatever becomes known later.

CREATE TABLE closed_period (
    starts BIGINT NOT NULL PRIMARY KEY, -- ns since the epoch, whole days UTC
    ends   BIGINT NOT NULL,
    closed BIGINT NOT NULL,
    author BIGINT NOT NULL
);

-- An account's names, grants and sums as they were; account 0 is the platform. The hash is
-- of these, of the account's daily sums and of its device time below.
CREATE TABLE closed_book (
    period  BIGINT NOT NULL,
    account BIGINT NOT NULL,
    body    TEXT   NOT NULL,
    hash    TEXT   NOT NULL,
    PRIMARY KEY (period, account)
);

-- Device time as it was known when the period was closed, cut to it.
CREATE TABLE closed_tile (
    period  BIGINT NOT NULL,
    account BIGINT NOT NULL,
    device  TEXT   NOT NULL,
    starts  BIGINT NOT NULL,
    job     BIGINT NOT NULL,
    ends    BIGINT NOT NULL,
    node    TEXT   NOT NULL,
    model   TEXT   NOT NULL,
    milli   BIGINT NOT NULL,
    cause   TEXT   NOT NULL,
    attempt BIGINT NOT NULL,
    person  BIGINT NOT NULL,
    PRIMARY KEY (period, account, device, starts, job)
);
