// What is to be done at a time.
CREATE CONSTRAINT schedule_id IF NOT EXISTS FOR (n:Schedule) REQUIRE (n.user_id, n.id) IS UNIQUE;
// The summary of a user.
CREATE CONSTRAINT synopsis_id IF NOT EXISTS FOR (n:Synopsis) REQUIRE (n.user_id, n.id) IS UNIQUE;
