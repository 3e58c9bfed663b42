-- Reservations: resources held for accounts and users over windows, and those windows.

CREATE TABLE reservation (
    id        INTEGER PRIMARY KEY,
    name      TEXT    NOT NULL,
    partition TEXT    NOT NULL,
    payer     BIGINT  NOT NULL,
    starts    BIGINT  NOT NULL,
    upcoming  BIGINT  NOT NULL,
    closed    BOOLEAN NOT NULL,
    body      TEXT    NOT NULL
);
CREATE INDEX reservation_live ON reservation (id) WHERE NOT closed;

CREATE TABLE booking (
    id          INTEGER PRIMARY KEY,
    reservation BIGINT  NOT NULL,
    starts      BIGINT  NOT NULL,
    ends        BIGINT  NOT NULL,
    closed      BOOLEAN NOT NULL,
    body        TEXT    NOT NULL
);
CREATE INDEX booking_live ON booking (id) WHERE NOT closed;
CREATE INDEX booking_of ON booking (reservation, id);
