-- A limit may be one of a QoS.

ALTER TABLE limits ADD COLUMN qos TEXT NOT NULL DEFAULT '';
