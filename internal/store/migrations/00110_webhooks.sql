-- URLs that notices are posted to, and by which of them a notice goes.

CREATE TABLE webhook (
    person  BIGINT NOT NULL,
    name    TEXT   NOT NULL,
    url     TEXT   NOT NULL,
    wants   TEXT   NOT NULL,
    account BIGINT NOT NULL,
    sealed  TEXT   NOT NULL,
    former  TEXT   NOT NULL,
    until   BIGINT NOT NULL,
    off     TEXT   NOT NULL,
    changed BIGINT NOT NULL,
    PRIMARY KEY (person, name)
);

ALTER TABLE notice ADD COLUMN hook TEXT NOT NULL DEFAULT '';
DROP INDEX notice_due;
CREATE INDEX notice_due ON notice (due) WHERE state = 'waiting' AND hook = '';
CREATE INDEX notice_hooked ON notice (person, hook, due) WHERE state = 'waiting' AND hook <> '';
