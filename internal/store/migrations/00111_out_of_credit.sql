-- What becomes of what runs in an account once its credits are used up.
ALTER TABLE account ADD COLUMN out_of_credit TEXT NOT NULL DEFAULT '';
