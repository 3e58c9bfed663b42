-- What a job runs beside its primary.

CREATE TABLE step (
    job       BIGINT NOT NULL,
    n         BIGINT NOT NULL,
    state     TEXT   NOT NULL,
    submitted BIGINT NOT NULL,
    ended     BIGINT NOT NULL,
    added     BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    outcome   TEXT   NOT NULL,
    spec      TEXT   NOT NULL,
    body      TEXT   NOT NULL,
    PRIMARY KEY (job, n)
);
CREATE INDEX step_live ON step (job, n) WHERE state <> 'ended';
