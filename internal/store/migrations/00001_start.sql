-- One text for SQLite and PostgreSQL. Times are nanoseconds since the epoch and 0 is
-- "none"; money is micro-credits; ids are the world's counters. Lists and nested
-- values are JSON in TEXT, so that both databases give back the bytes they were
-- given. INTEGER PRIMARY KEY becomes BIGINT PRIMARY KEY on PostgreSQL.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- One row. Who may write: every transaction checks the epoch first.
CREATE TABLE leader (
    one     INTEGER PRIMARY KEY,
    epoch   BIGINT NOT NULL,
    holder  TEXT   NOT NULL,
    expires BIGINT NOT NULL -- the database's time; 0: given up, or held by a file lock
);

CREATE TABLE account (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    parent     BIGINT  NOT NULL,
    billing    TEXT    NOT NULL,
    unix_group TEXT    NOT NULL,
    closed     BOOLEAN NOT NULL,
    created    BIGINT  NOT NULL
);

CREATE TABLE person (
    id        INTEGER PRIMARY KEY,
    name      TEXT    NOT NULL,
    platform  TEXT    NOT NULL,
    uid       BIGINT  NOT NULL,
    uid_since BIGINT  NOT NULL,
    warning   TEXT    NOT NULL,
    blocked   BOOLEAN NOT NULL,
    created   BIGINT  NOT NULL
);

CREATE TABLE member (
    account    BIGINT  NOT NULL,
    person     BIGINT  NOT NULL,
    role       TEXT    NOT NULL, -- empty: not any more
    from_group BOOLEAN NOT NULL,
    PRIMARY KEY (account, person)
);

CREATE TABLE token (
    id      INTEGER PRIMARY KEY,
    person  BIGINT  NOT NULL,
    name    TEXT    NOT NULL,
    hash    TEXT    NOT NULL,
    created BIGINT  NOT NULL,
    expires BIGINT  NOT NULL,
    revoked BOOLEAN NOT NULL
);

CREATE TABLE partition (
    name       TEXT PRIMARY KEY,
    nodes      TEXT    NOT NULL, -- JSON list
    is_default BOOLEAN NOT NULL,
    max_wall   BIGINT  NOT NULL,
    def_wall   BIGINT  NOT NULL
);

CREATE TABLE qos (
    name       TEXT PRIMARY KEY,
    is_default BOOLEAN NOT NULL,
    priority   BIGINT  NOT NULL,
    factor     BIGINT  NOT NULL, -- thousandths
    max_wall   BIGINT  NOT NULL,
    grace      BIGINT  NOT NULL,
    max_grace  BIGINT  NOT NULL
);

CREATE TABLE price (
    id        INTEGER PRIMARY KEY,
    partition TEXT   NOT NULL,
    starts    BIGINT NOT NULL,
    cpu       BIGINT NOT NULL,
    memory    BIGINT NOT NULL,
    devices   TEXT   NOT NULL, -- JSON list of model and rate
    author    BIGINT NOT NULL,
    published BIGINT NOT NULL
);

CREATE TABLE limits (
    id        INTEGER PRIMARY KEY,
    account   BIGINT  NOT NULL,
    person    BIGINT  NOT NULL,
    partition TEXT    NOT NULL,
    resource  TEXT    NOT NULL,
    bound     BIGINT  NOT NULL,
    author    BIGINT  NOT NULL,
    removed   BOOLEAN NOT NULL
);

CREATE TABLE grants (
    id      INTEGER PRIMARY KEY,
    account BIGINT  NOT NULL,
    amount  BIGINT  NOT NULL,
    source  TEXT    NOT NULL,
    starts  BIGINT  NOT NULL,
    ends    BIGINT  NOT NULL,
    subtree BOOLEAN NOT NULL,
    author  BIGINT  NOT NULL,
    created BIGINT  NOT NULL,
    expired BOOLEAN NOT NULL
);
CREATE INDEX grants_account ON grants (account);

-- Append-only.
CREATE TABLE transfer (
    id       INTEGER PRIMARY KEY,
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    source   TEXT   NOT NULL,
    target   TEXT   NOT NULL,
    amount   BIGINT NOT NULL CHECK (amount > 0),
    kind     TEXT   NOT NULL,
    job      BIGINT NOT NULL,
    attempt  BIGINT NOT NULL,
    account  BIGINT NOT NULL,
    person   BIGINT NOT NULL,
    grant_id BIGINT NOT NULL -- follows from source and target; 0: none
);
-- A deposit's transfers are found by their job: half of all names would be theirs.
CREATE INDEX transfer_source ON transfer (source, id) WHERE source NOT LIKE 'deposit:%';
CREATE INDEX transfer_target ON transfer (target, id) WHERE target NOT LIKE 'deposit:%';
CREATE INDEX transfer_job ON transfer (job, id) WHERE job <> 0;
CREATE INDEX transfer_account ON transfer (account, at) WHERE account <> 0;
CREATE INDEX transfer_grant ON transfer (grant_id, at) WHERE grant_id <> 0;

CREATE TABLE tile (
    device  TEXT   NOT NULL,
    starts  BIGINT NOT NULL,
    ends    BIGINT NOT NULL, -- 0: open
    node    TEXT   NOT NULL,
    model   TEXT   NOT NULL,
    milli   BIGINT NOT NULL,
    cause   TEXT   NOT NULL,
    job     BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    account BIGINT NOT NULL,
    person  BIGINT NOT NULL,
    posted  BIGINT NOT NULL,
    PRIMARY KEY (device, starts)
);
CREATE INDEX tile_ends ON tile (ends);
CREATE INDEX tile_account ON tile (account, ends);
CREATE INDEX tile_job ON tile (job) WHERE job <> 0;

CREATE TABLE job (
    id        INTEGER PRIMARY KEY,
    person    BIGINT NOT NULL,
    account   BIGINT NOT NULL,
    state     TEXT   NOT NULL,
    partition TEXT   NOT NULL,
    submitted BIGINT NOT NULL,
    ended     BIGINT NOT NULL,
    priority  BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    outcome   TEXT   NOT NULL,
    deposit   BIGINT NOT NULL,
    charged   BIGINT NOT NULL,
    returned  BIGINT NOT NULL,
    spec      TEXT   NOT NULL, -- JSON
    body      TEXT   NOT NULL  -- JSON: what nothing queries
);
CREATE INDEX job_account ON job (account, id);
CREATE INDEX job_person ON job (person, id);
CREATE INDEX job_live ON job (state, id) WHERE state <> 'ended';

CREATE TABLE refusal (
    id      INTEGER PRIMARY KEY,
    person  BIGINT NOT NULL,
    account BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    seq     BIGINT NOT NULL,
    spec    TEXT   NOT NULL, -- JSON
    verdict TEXT   NOT NULL  -- JSON
);
CREATE INDEX refusal_person ON refusal (person, id);

CREATE TABLE node (
    name    TEXT PRIMARY KEY,
    cpu     BIGINT  NOT NULL,
    memory  BIGINT  NOT NULL,
    ready   BOOLEAN NOT NULL,
    gone    BOOLEAN NOT NULL,
    drained BOOLEAN NOT NULL,
    body    TEXT    NOT NULL -- JSON
);

CREATE TABLE device (
    uuid    TEXT PRIMARY KEY,
    node    TEXT    NOT NULL,
    idx     BIGINT  NOT NULL,
    model   TEXT    NOT NULL,
    healthy BOOLEAN NOT NULL,
    gone    BOOLEAN NOT NULL,
    body    TEXT    NOT NULL -- JSON
);

CREATE TABLE maintenance (
    id     INTEGER PRIMARY KEY,
    node   TEXT    NOT NULL,
    starts BIGINT  NOT NULL,
    ends   BIGINT  NOT NULL,
    reason TEXT    NOT NULL,
    author BIGINT  NOT NULL,
    closed BOOLEAN NOT NULL
);

-- Append-only: decision, audit entry, event and command in one, chained by hash.
CREATE TABLE log (
    seq         INTEGER PRIMARY KEY,
    at          BIGINT NOT NULL,
    person      BIGINT NOT NULL,
    principal   TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    command     TEXT   NOT NULL, -- JSON
    touched     TEXT   NOT NULL,
    job         BIGINT NOT NULL,
    refusal     BIGINT NOT NULL,
    account     BIGINT NOT NULL,
    state       TEXT   NOT NULL,
    message     TEXT   NOT NULL,
    reasons     TEXT   NOT NULL, -- JSON list
    key_name    TEXT   NOT NULL, -- empty: no idempotency key
    key_digest  TEXT   NOT NULL,
    key_job     BIGINT NOT NULL,
    key_refusal BIGINT NOT NULL,
    prev        TEXT   NOT NULL,
    hash        TEXT   NOT NULL
);
CREATE INDEX log_job ON log (job, seq) WHERE job <> 0;
CREATE INDEX log_key ON log (at) WHERE key_name <> '';
