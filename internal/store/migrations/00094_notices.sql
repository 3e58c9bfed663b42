-- Where people are told things, what accounts' managers were told of, and the notices
-- themselves with what has become of them.

CREATE TABLE contact (
    person  INTEGER PRIMARY KEY,
    address TEXT    NOT NULL,
    wants   TEXT    NOT NULL,
    changed BIGINT  NOT NULL
);

CREATE TABLE credit_level (
    account INTEGER PRIMARY KEY,
    percent BIGINT  NOT NULL,
    changed BIGINT  NOT NULL
);

CREATE TABLE notice (
    name    TEXT    NOT NULL PRIMARY KEY,
    seq     BIGINT  NOT NULL,
    at      BIGINT  NOT NULL,
    kind    TEXT    NOT NULL,
    person  BIGINT  NOT NULL,
    account BIGINT  NOT NULL,
    job     BIGINT  NOT NULL,
    address TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    body    TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    tries   BIGINT  NOT NULL,
    due     BIGINT  NOT NULL,
    done    BIGINT  NOT NULL,
    why     TEXT    NOT NULL
);
CREATE INDEX notice_due ON notice (due) WHERE state = 'waiting';
CREATE INDEX notice_of ON notice (person, seq);
CREATE INDEX notice_done ON notice (done) WHERE state <> 'waiting';

-- Up to which row the log was looked through for them: nothing is told of what was before.
CREATE TABLE notice_cursor (
    one INTEGER PRIMARY KEY,
    seq BIGINT  NOT NULL
);
INSERT INTO notice_cursor (one, seq) SELECT 1, COALESCE(MAX(seq), 0) FROM log;
