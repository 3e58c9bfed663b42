-- How users are known to registries of images; the passwords are sealed with a key that
-- isn't in the database, and empty where there is none any more. And what was pulled from
-- with one of them.

CREATE TABLE credential (
    person   BIGINT NOT NULL,
    registry TEXT   NOT NULL,
    username TEXT   NOT NULL,
    sealed   TEXT   NOT NULL,
    changed  BIGINT NOT NULL,
    PRIMARY KEY (person, registry)
);
CREATE TABLE repository (
    name  TEXT   NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL
);
