-- Partitions and QoS are administered at run time: who may use them, what happens
-- when the machine is busy, who may stop whose jobs. A removed one is retired: jobs
-- of the past name it.

ALTER TABLE partition ADD COLUMN retired BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE partition ADD COLUMN body    TEXT    NOT NULL DEFAULT '{}';
ALTER TABLE qos       ADD COLUMN retired BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE qos       ADD COLUMN body    TEXT    NOT NULL DEFAULT '{}';
