// Relations that beliefs state.
CREATE CONSTRAINT lives_in_id IF NOT EXISTS FOR ()-[r:LIVES_IN]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT studies_at_id IF NOT EXISTS FOR ()-[r:STUDIES_AT]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT reports_to_id IF NOT EXISTS FOR ()-[r:REPORTS_TO]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT partner_of_id IF NOT EXISTS FOR ()-[r:PARTNER_OF]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT parent_of_id IF NOT EXISTS FOR ()-[r:PARENT_OF]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT sibling_of_id IF NOT EXISTS FOR ()-[r:SIBLING_OF]-() REQUIRE (r.user_id, r.id) IS UNIQUE;
CREATE CONSTRAINT owns_id IF NOT EXISTS FOR ()-[r:OWNS]-() REQUIRE (r.user_id, r.id) IS UNIQUE;

// Facts by what they say, entities by name.
CREATE INDEX fact_subject_slot IF NOT EXISTS FOR (n:Fact) ON (n.user_id, n.subject, n.slot);
CREATE INDEX entity_name IF NOT EXISTS FOR (n:Entity) ON (n.user_id, n.name);

// Nodes have other properties than before: the journal is followed again from its start, over what is there.
MATCH (p:Projection) WHERE p.name STARTS WITH 'graph' SET p.seq = 0 REMOVE p.operation_id;
