-- Limits on hours of use per period: what is used of one in a period, from when to
-- when that is, and what was carried over into it.

ALTER TABLE limits ADD COLUMN body TEXT NOT NULL DEFAULT '{}';

CREATE TABLE limit_period (
    limit_id BIGINT  NOT NULL,
    starts   BIGINT  NOT NULL,
    ends     BIGINT  NOT NULL,
    bound    BIGINT  NOT NULL,
    carried  BIGINT  NOT NULL,
    used     BIGINT  NOT NULL,
    over     BOOLEAN NOT NULL,
    PRIMARY KEY (limit_id, starts)
);
CREATE INDEX limit_period_live ON limit_period (limit_id, starts) WHERE NOT over;
