-- What is kept of passwords: an argon2id hash with its parameters; empty: none.
CREATE TABLE password (
    person BIGINT NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL,
    changed BIGINT NOT NULL
);
