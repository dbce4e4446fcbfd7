// The graph's constraints and indexes. A statement ends with a semicolon, and each can run again.

// Every record has the label Record beside its own: one index finds a record of any kind, also the empty node that
// stands in for a record that others name and that is not there.
CREATE CONSTRAINT record_key IF NOT EXISTS FOR (n:Record) REQUIRE (n.user_id, n.key) IS UNIQUE;

CREATE CONSTRAINT conversation_id IF NOT EXISTS FOR (n:Conversation) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT turn_id IF NOT EXISTS FOR (n:Turn) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT entity_id IF NOT EXISTS FOR (n:Entity) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT fact_id IF NOT EXISTS FOR (n:Fact) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT goal_id IF NOT EXISTS FOR (n:Goal) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT strategy_id IF NOT EXISTS FOR (n:Strategy) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT procedure_id IF NOT EXISTS FOR (n:Procedure) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT tool_id IF NOT EXISTS FOR (n:Tool) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT tool_invocation_id IF NOT EXISTS FOR (n:ToolInvocation) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT user_id IF NOT EXISTS FOR (n:User) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT outcome_id IF NOT EXISTS FOR (n:Outcome) REQUIRE (n.user_id, n.id) IS UNIQUE;
CREATE CONSTRAINT review_id IF NOT EXISTS FOR (n:Review) REQUIRE (n.user_id, n.id) IS UNIQUE;

// A relation that somebody stated is found by its id. One that follows from a record's fields has none.
CREATE CONSTRAINT has_turn_id IF NOT EXISTS FOR ()-[r:HAS_TURN]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT followed_by_id IF NOT EXISTS FOR ()-[r:FOLLOWED_BY]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT mentions_id IF NOT EXISTS FOR ()-[r:MENTIONS]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT derived_from_id IF NOT EXISTS FOR ()-[r:DERIVED_FROM]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT about_id IF NOT EXISTS FOR ()-[r:ABOUT]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT promoted_from_id IF NOT EXISTS FOR ()-[r:PROMOTED_FROM]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT supersedes_id IF NOT EXISTS FOR ()-[r:SUPERSEDES]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT depends_on_id IF NOT EXISTS FOR ()-[r:DEPENDS_ON]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT supports_id IF NOT EXISTS FOR ()-[r:SUPPORTS]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT has_goal_id IF NOT EXISTS FOR ()-[r:HAS_GOAL]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT subgoal_of_id IF NOT EXISTS FOR ()-[r:SUBGOAL_OF]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT blocked_by_id IF NOT EXISTS FOR ()-[r:BLOCKED_BY]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT uses_tool_id IF NOT EXISTS FOR ()-[r:USES_TOOL]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT succeeded_in_id IF NOT EXISTS FOR ()-[r:SUCCEEDED_IN]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT used_tool_id IF NOT EXISTS FOR ()-[r:USED_TOOL]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT invoked_id IF NOT EXISTS FOR ()-[r:INVOKED]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT related_to_id IF NOT EXISTS FOR ()-[r:RELATED_TO]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT part_of_id IF NOT EXISTS FOR ()-[r:PART_OF]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT located_in_id IF NOT EXISTS FOR ()-[r:LOCATED_IN]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT works_for_id IF NOT EXISTS FOR ()-[r:WORKS_FOR]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT knows_id IF NOT EXISTS FOR ()-[r:KNOWS]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT created_by_id IF NOT EXISTS FOR ()-[r:CREATED_BY]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT references_id IF NOT EXISTS FOR ()-[r:REFERENCES]-() REQUIRE (r.user_id, r.id) IS UNIQUE;

// Channels.
CREATE INDEX turn_channel IF NOT EXISTS FOR (n:Turn) ON (n.channel);
CREATE INDEX entity_channel IF NOT EXISTS FOR (n:Entity) ON (n.channel);
CREATE INDEX fact_channel IF NOT EXISTS FOR (n:Fact) ON (n.channel);
CREATE INDEX strategy_channel IF NOT EXISTS FOR (n:Strategy) ON (n.channel);
CREATE INDEX conversation_channel IF NOT EXISTS FOR (n:Conversation) ON (n.channel);
CREATE INDEX goal_channel IF NOT EXISTS FOR (n:Goal) ON (n.channel);
CREATE INDEX conversation_user_channel IF NOT EXISTS FOR (n:Conversation) ON (n.user_id, n.channel);
CREATE INDEX entity_user_channel IF NOT EXISTS FOR (n:Entity) ON (n.user_id, n.channel);
CREATE INDEX fact_user_channel IF NOT EXISTS FOR (n:Fact) ON (n.user_id, n.channel);

// Where a turn stands, and what a tool is called.
CREATE INDEX turn_place IF NOT EXISTS FOR (n:Turn) ON (n.user_id, n.conversation_id, n.index);
CREATE INDEX tool_name IF NOT EXISTS FOR (n:Tool) ON (n.user_id, n.name);

// What the graph says of itself: whose it is, its schema, and up to where it follows each user's journal.
CREATE CONSTRAINT store_name IF NOT EXISTS FOR (n:Store) REQUIRE n.name IS UNIQUE;
CREATE CONSTRAINT schema_version IF NOT EXISTS FOR (n:SchemaVersion) REQUIRE n.version IS UNIQUE;
CREATE CONSTRAINT projection_user IF NOT EXISTS FOR (n:Projection) REQUIRE (n.user_id, n.name) IS UNIQUE;

// Which records were erased for good, and when: kept here too, so that a log restored from an earlier backup can be cleaned.
CREATE CONSTRAINT erased_key IF NOT EXISTS FOR (n:Erased) REQUIRE (n.user_id, n.key) IS UNIQUE;
