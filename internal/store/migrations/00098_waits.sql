-- Why jobs waited, as it was found from time to time: a row for each change of it.

CREATE TABLE wait (
    job      BIGINT NOT NULL,
    at       BIGINT NOT NULL, -- ns since the epoch
    position BIGINT NOT NULL,
    queue    BIGINT NOT NULL,
    kind     TEXT   NOT NULL, -- how sure the start was
    starts   BIGINT NOT NULL, -- 0: unknown
    reasons  TEXT   NOT NULL, -- JSON
    PRIMARY KEY (job, at)
);
