-- Credits that went from one account's grant into another's.

ALTER TABLE grants ADD COLUMN origin BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN passed BIGINT NOT NULL DEFAULT 0;
