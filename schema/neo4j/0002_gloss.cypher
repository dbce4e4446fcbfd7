// What a turn says, said so that it stands alone.
CREATE CONSTRAINT gloss_id IF NOT EXISTS FOR (n:Gloss) REQUIRE (n.user_id, n.id) IS UNIQUE;
