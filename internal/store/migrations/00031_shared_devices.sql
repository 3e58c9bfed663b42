-- Several jobs may have parts of one device at a time, so a tile is one of a job too.

ALTER TABLE tile RENAME TO whole_tile;
DROP INDEX tile_ends;
DROP INDEX tile_account;
DROP INDEX tile_job;

CREATE TABLE tile (
    device  TEXT   NOT NULL,
    starts  BIGINT NOT NULL,
    job     BIGINT NOT NULL, -- 0: no job has it
    ends    BIGINT NOT NULL, -- 0: open
    node    TEXT   NOT NULL,
    model   TEXT   NOT NULL,
    milli   BIGINT NOT NULL,
    cause   TEXT   NOT NULL,
    attempt BIGINT NOT NULL,
    account BIGINT NOT NULL,
    person  BIGINT NOT NULL,
    posted  BIGINT NOT NULL,
    PRIMARY KEY (device, starts, job)
);
INSERT INTO tile (device, starts, job, ends, node, model, milli, cause, attempt, account, person, posted)
SELECT device, starts, job, ends, node, model, milli, cause, attempt, account, person, posted FROM whole_tile;
DROP TABLE whole_tile;

CREATE INDEX tile_ends ON tile (ends);
CREATE INDEX tile_account ON tile (account, ends);
CREATE INDEX tile_job ON tile (job) WHERE job <> 0;
