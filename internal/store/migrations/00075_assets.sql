-- Images that were saved from jobs, and folders of accounts that their jobs find. A row that
-- is removed stays, as history.

CREATE TABLE saved_image (
    ref     TEXT    NOT NULL PRIMARY KEY,
    person  BIGINT  NOT NULL,
    account BIGINT  NOT NULL,
    state   TEXT    NOT NULL,
    job     BIGINT  NOT NULL,
    digest  TEXT    NOT NULL,
    size    BIGINT  NOT NULL,
    made    BIGINT  NOT NULL,
    removed BOOLEAN NOT NULL,
    body    TEXT    NOT NULL
);
CREATE TABLE folder (
    account   BIGINT  NOT NULL,
    name      TEXT    NOT NULL,
    path      TEXT    NOT NULL,
    target    TEXT    NOT NULL,
    read_only BOOLEAN NOT NULL,
    changed   BIGINT  NOT NULL,
    removed   BOOLEAN NOT NULL,
    body      TEXT    NOT NULL,
    PRIMARY KEY (account, name)
);
