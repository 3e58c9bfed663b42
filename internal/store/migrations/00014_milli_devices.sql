-- Devices are counted in milli-devices: what is recorded is of whole ones. Specs and
-- attempts, which are JSON, follow in devices.go.

UPDATE limits SET bound = CASE WHEN bound > 9223372036854775 THEN 9223372036854775807 ELSE bound * 1000 END
WHERE resource = 'gpu' OR resource = 'job.gpu' OR resource = 'gpu-hours'
   OR resource LIKE 'gpu:%' OR resource LIKE 'job.gpu:%' OR resource LIKE 'gpu-hours:%';

UPDATE limit_period SET
    bound   = CASE WHEN bound > 9223372036854775 THEN 9223372036854775807 ELSE bound * 1000 END,
    carried = CASE WHEN carried > 9223372036854775 THEN 9223372036854775807 ELSE carried * 1000 END,
    used    = CASE WHEN used > 9223372036854775 THEN 9223372036854775807 ELSE used * 1000 END
WHERE limit_id IN (SELECT id FROM limits WHERE resource = 'gpu-hours' OR resource LIKE 'gpu-hours:%');
