-- Accounts' shares of the queues of partitions. -1 is a bound that isn't set.

CREATE TABLE queue_share (
    id         BIGINT  NOT NULL PRIMARY KEY,
    account    BIGINT  NOT NULL,
    partition  TEXT    NOT NULL,
    resource   TEXT    NOT NULL,
    guaranteed BIGINT  NOT NULL,
    bound      BIGINT  NOT NULL,
    borrows    BIGINT  NOT NULL,
    lends      BIGINT  NOT NULL,
    weight     BIGINT  NOT NULL,
    author     BIGINT  NOT NULL,
    removed    BOOLEAN NOT NULL
);
