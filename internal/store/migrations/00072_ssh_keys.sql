-- The public keys by which users are known over SSH. A key that was taken away has an empty
-- blob, and may become another user's.

CREATE TABLE ssh_key (
    fingerprint TEXT   NOT NULL PRIMARY KEY,
    person      BIGINT NOT NULL,
    name        TEXT   NOT NULL,
    type        TEXT   NOT NULL,
    blob        TEXT   NOT NULL,
    created     BIGINT NOT NULL,
    expires     BIGINT NOT NULL
);
