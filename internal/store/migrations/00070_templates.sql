-- Users' own templates of workspaces. One that is removed stays, as history.

CREATE TABLE template (
    person  BIGINT  NOT NULL,
    name    TEXT    NOT NULL,
    account BIGINT  NOT NULL,
    changed BIGINT  NOT NULL,
    removed BOOLEAN NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (person, name)
);
