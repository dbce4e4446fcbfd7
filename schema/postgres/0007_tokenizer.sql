-- Which tokenizer read a user's words: `tokenizer_fingerprint` of the version that wrote all of them. '' is several or unknown.
ALTER TABLE word_state ADD COLUMN tokenizer TEXT NOT NULL DEFAULT '';
