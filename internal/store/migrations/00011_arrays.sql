-- Elements of arrays: jobs that have started, by their array and their index in it.

ALTER TABLE job ADD COLUMN array_of BIGINT NOT NULL DEFAULT 0; -- 0: no element
ALTER TABLE job ADD COLUMN element BIGINT NOT NULL DEFAULT 0;
CREATE INDEX job_element ON job (array_of, element) WHERE array_of <> 0;
