-- What somebody asks for that others have to approve.

CREATE TABLE request (
    id         INTEGER PRIMARY KEY,
    person     BIGINT  NOT NULL,
    token      TEXT    NOT NULL, -- JSON
    kind       TEXT    NOT NULL,
    account    BIGINT  NOT NULL,
    other      BIGINT  NOT NULL,
    wish       TEXT    NOT NULL, -- JSON
    message    TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    created    BIGINT  NOT NULL,
    expires    BIGINT  NOT NULL,
    reminded   BIGINT  NOT NULL,
    decided    BIGINT  NOT NULL,
    decided_by BIGINT  NOT NULL,
    said       TEXT    NOT NULL,
    failed     TEXT    NOT NULL -- why approving it failed last
);
