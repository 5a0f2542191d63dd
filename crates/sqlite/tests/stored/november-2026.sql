-- What `longhaul demo --diagnostics` of November 2026 (schema 11) had in its file when it was killed: a task that ran,
-- one that had called others, one that asks, two with cleanup, and a webhook delivery. The program wrote it; the
-- notification in the outbox is a copy of the one in the webhook delivery.
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE tasks (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        counted INTEGER NOT NULL, -- whether it counts against the owner's limit of unfinished tasks
        expires_at INTEGER NOT NULL,
        idempotency BLOB,
        record TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'working', tool TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (owner, id)
    ) STRICT;
CREATE INDEX tasks_by_expiry ON tasks (expires_at);
CREATE TABLE quotas (owner BLOB PRIMARY KEY, open INTEGER NOT NULL, bytes INTEGER NOT NULL DEFAULT 0, new INTEGER NOT NULL DEFAULT 0, new_since INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
        owner BLOB NOT NULL,
        key BLOB NOT NULL,
        request BLOB NOT NULL,
        id BLOB NOT NULL,
        PRIMARY KEY (owner, key)
    ) STRICT, WITHOUT ROWID;
CREATE TABLE parts (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        part TEXT NOT NULL,
        PRIMARY KEY (owner, id, name, number)
    ) STRICT;
CREATE TABLE "orphans" (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        seen_at INTEGER NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT, WITHOUT ROWID;
CREATE TABLE mailboxes (
        owner BLOB NOT NULL,
        mailbox BLOB NOT NULL,
        expires_at INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (owner, mailbox)
    ) STRICT;
CREATE INDEX mailboxes_by_expiry ON mailboxes (expires_at);
CREATE INDEX orphans_by_age ON orphans (seen_at);
CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        event TEXT NOT NULL UNIQUE,
        announcement TEXT NOT NULL
    ) STRICT;
CREATE INDEX tasks_open ON tasks (owner, id, status, tool, counted, expires_at)
        WHERE status IN ('working', 'input_required');
CREATE INDEX tasks_ended ON tasks (owner, status, id, tool) WHERE status NOT IN ('working', 'input_required');
CREATE TABLE "messages" (
        seq INTEGER PRIMARY KEY,
        dead INTEGER NOT NULL DEFAULT 0,
        visible_at INTEGER NOT NULL,
        receives INTEGER NOT NULL DEFAULT 0,
        turn INTEGER NOT NULL DEFAULT 0, -- the number of the latest delivery
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        trace TEXT,
        attempt INTEGER
    ) STRICT;
CREATE INDEX messages_by_visibility ON messages (dead, visible_at, seq);
CREATE INDEX messages_by_owner ON messages (owner, visible_at, seq, id) WHERE dead = 0;
CREATE TABLE "journal" (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        recording TEXT,
        PRIMARY KEY (owner, id, kind, name)
    ) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('schema_version', X'3131');
INSERT INTO meta (name, value) VALUES ('secret/request-state', X'4e15b2c58039a092253832e5aac43cb96f0e0bfbe638ec4d182e3480f666f4d1');
INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', 1, 1795774230852, X'fe62b1c6c2b9982cf16fd80cbcee7c747e27c504fc6f18e0355190a61ea08c00', '{"tool":"countdown","state":{"running":{"lease":{"until":1795682453540,"token":"07a21ffd-b5b0-f07f-05ab-bf8147094281"}}},"attempt":6,"failures":1,"last_failure":"the tool did not reach a step boundary within the time of its leg of 1500 ms; split it into shorter steps","terms":{"ttl_ms":91800000,"keep_ms":1800000,"run_ms":90000000,"tries_max":3},"created_at":1795682430852,"updated_at":1795682443540,"sent_at":1795682442498,"started_at":1795682430865,"expires_at":1795774230852,"progress":{"done":5.0,"total":20.0,"message":null},"request":{"inline":"{\"arguments\":{\"seconds\":20,\"steps\":20},\"_meta\":{\"dev.longhaul/idempotencyKey\":\"longhaul-ffd1395ae688eb2d88596e7d8a9d9677\",\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{},\"url\":{}},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"longhaul\",\"version\":\"0.1.0\"},\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"},"cleaning":"none","legs":{"since":1795682443513,"past":[{"attempt":1,"from":1795682430865,"to":1795682432376,"end":{"failed":"the tool did not reach a step boundar…"}},{"attempt":2,"from":1795682433391,"to":1795682434906,"end":{"failed":"the tool did not reach a step boundar…"}},{"attempt":3,"from":1795682435912,"to":1795682437418,"end":{"failed":"the tool did not reach a step boundar…"}},{"attempt":4,"from":1795682438430,"to":1795682439946,"end":{"failed":"the tool did not reach a step boundar…"}},{"attempt":5,"from":1795682440966,"to":1795682442498,"end":{"failed":"the tool did not reach a step boundar…"}}]}}', 'working', 'countdown');
INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', 0, 1795777831517, X'39e488ad63ca96011c7b0365cb392093bb6d7fafedf12c93d6a060a5e941d34f', '{"tool":"gather","state":{"completed":{"result":{"inline":"{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"{\\\"error\\\":\\\"the call `call 0` failed: no retries are left after 3 failures in a row: the tool did not reach a step boundary within the time of its leg of 1500 ms; split it into shorter steps\\\",\\\"steps\\\":[0,0]}\"}],\"structuredContent\":{\"error\":\"the call `call 0` failed: no retries are left after 3 failures in a row: the tool did not reach a step boundary within the time of its leg of 1500 ms; split it into shorter steps\",\"steps\":[0,0]},\"isError\":false}"},"kind":"success"}},"attempt":2,"failures":0,"terms":{"ttl_ms":95400000,"keep_ms":1800000,"run_ms":93600000,"tries_max":10},"created_at":1795682431517,"updated_at":1795682439147,"sent_at":1795682439122,"started_at":1795682431519,"ended_at":1795682439147,"expires_at":1795777831517,"request":{"inline":"{\"arguments\":{\"calls\":2,\"seconds\":12},\"_meta\":{\"dev.longhaul/idempotencyKey\":\"longhaul-7955c0b5e39206f4dc29f1bc5d30a1b0\",\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{},\"url\":{}},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"longhaul\",\"version\":\"0.1.0\"},\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"},"cleaning":"none","legs":{"since":1795682439131,"past":[{"attempt":1,"from":1795682431519,"to":1795682431531,"end":"timer"}]}}', 'completed', 'gather');
INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217038fcc7d26a8ae9c1b5089924e', 0, 1796028039119, NULL, '{"tool":"longhaul/notice","state":{"sleeping":{"until":1795682444504}},"attempt":1,"failures":0,"terms":{"ttl_ms":345600000,"keep_ms":21600000,"run_ms":324000000,"tries_max":20},"created_at":1795682439119,"updated_at":1795682439132,"sent_at":1795682439132,"started_at":1795682439122,"expires_at":1796028039119,"progress":{"done":1.0,"total":10.0,"message":"try 1 of 10: the endpoint cannot be reached"},"request":{"inline":"{\"arguments\":{\"endpoint\":\"nobody\",\"announcement\":{\"task\":{\"owner\":\"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d\",\"id\":\"01a21703-721d-78cc-a93e-83715983777e\"},\"what\":\"failed\",\"attempt\":3,\"at\":1795682439116,\"tool\":\"countdown\",\"message\":\"no retries are left\"}}}"},"cleaning":"none","legs":{"past":[{"attempt":1,"from":1795682439122,"to":1795682439132,"end":"timer"}]}}', 'working', 'longhaul/notice');
INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217039555794c82219e3070b5d041', 1, 1795774240533, X'0aaeba0123bb15dd97d22b71e65931be8d2d6421d6ca67437096745fe721647e', '{"tool":"ask","state":{"input_required":{"asks":[{"key":"question-1","request":"{\"method\":\"elicitation/create\",\"params\":{\"message\":\"Your name?\",\"mode\":\"form\",\"requestedSchema\":{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"description\":\"The form that the user fills in for each question.\",\"properties\":{\"answer\":{\"description\":\"The answer to the question.\",\"type\":\"string\"}},\"required\":[\"answer\"],\"title\":\"Answer\",\"type\":\"object\"}}}"}],"until":null}},"attempt":1,"failures":0,"terms":{"ttl_ms":91800000,"keep_ms":1800000,"run_ms":90000000,"tries_max":3},"created_at":1795682440533,"updated_at":1795682440571,"sent_at":1795682440571,"started_at":1795682440562,"expires_at":1795774240533,"request":{"inline":"{\"arguments\":{\"questions\":[\"Your name?\",\"Your town?\"]},\"_meta\":{\"dev.longhaul/idempotencyKey\":\"longhaul-e1cf1c52316a1d169bb48ae3318df09c\",\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{},\"url\":{}},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"longhaul\",\"version\":\"0.1.0\"},\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"},"cleaning":"none","legs":{"past":[{"attempt":1,"from":1795682440562,"to":1795682440571,"end":"input"}]}}', 'input_required', 'ask');
INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703960f764da1b4ef4fecf6f9a1', 1, 1795686040719, X'6676bfaea7be842aaef7ce71f74974e58e62fe41d3ce42e252ba7b66eee957cd', '{"tool":"fail","state":{"sleeping":{"until":1795682444304}},"attempt":2,"failures":2,"last_failure":"the tool panicked","terms":{"ttl_ms":3600000,"keep_ms":1800000,"run_ms":45000,"tries_max":3},"created_at":1795682440719,"updated_at":1795682442304,"sent_at":1795682442304,"started_at":1795682440726,"expires_at":1795686040719,"request":{"inline":"{\"arguments\":{\"after_s\":0.2,\"cleaning_s\":0,\"how\":\"panic\"},\"_meta\":{\"dev.longhaul/idempotencyKey\":\"longhaul-4b6086eb6b4facff55a380194f0419d2\",\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{},\"url\":{}},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"longhaul\",\"version\":\"0.1.0\"},\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"},"cleaning":{"armed":{"tries":0,"lease":null}},"legs":{"past":[{"attempt":1,"from":1795682440726,"to":1795682441289,"end":{"failed":"the tool panicked"}},{"attempt":2,"from":1795682442299,"to":1795682442304,"end":{"failed":"the tool panicked"}}]}}', 'working', 'fail');
INSERT INTO tasks (owner, id, counted, expires_at, idempotency, record, status, tool) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703a11d72ba9e6652718f2c6c6a', 1, 1795686043549, X'63033fad7e45f180594570b4a258b9c1324a13b91c97d6588cb293eeac889330', '{"tool":"fail","state":{"running":{"lease":{"until":1795682453555,"token":"fbb672c8-e9f2-bf1d-7da5-4a821ad0685d"}}},"attempt":1,"failures":0,"terms":{"ttl_ms":3600000,"keep_ms":1800000,"run_ms":45000,"tries_max":3},"created_at":1795682443549,"updated_at":1795682443555,"sent_at":1795682443549,"started_at":1795682443555,"expires_at":1795686043549,"request":{"inline":"{\"arguments\":{\"after_s\":1,\"cleaning_s\":20,\"how\":\"hang\"},\"_meta\":{\"dev.longhaul/idempotencyKey\":\"longhaul-9806565520bb6a5ca1c405698e25753b\",\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{},\"url\":{}},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},\"io.modelcontextprotocol/clientInfo\":{\"name\":\"longhaul\",\"version\":\"0.1.0\"},\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"},"cleaning":{"armed":{"tries":0,"lease":null}},"legs":{"since":1795682443555}}', 'working', 'fail');
INSERT INTO quotas (owner, open, bytes, new, new_since) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', 4, 3251, 8, 1795682430852);
INSERT INTO mailboxes (owner, mailbox, expires_at, text) VALUES (X'0144e180961a3c3fa67a515c6f59aa2307d2185270124b334341b72a070ad9d5', X'49606f21ea99a26d744f2e554693aff453e80b83c0942c427fa4953f0fe01f67', 1798851600000, '9d7099a8be7f8c6555dead58ded3abb64ec89cb75a71568b7063910562994893');
INSERT INTO messages (seq, dead, visible_at, receives, turn, owner, id, trace, attempt) VALUES (1, 0, 1795682491533, 0, 0, X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', NULL, 1);
INSERT INTO messages (seq, dead, visible_at, receives, turn, owner, id, trace, attempt) VALUES (13, 0, 1795682449133, 0, 0, X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', NULL, 1);
INSERT INTO messages (seq, dead, visible_at, receives, turn, owner, id, trace, attempt) VALUES (14, 0, 1795682444522, 0, 0, X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217038fcc7d26a8ae9c1b5089924e', NULL, 1);
INSERT INTO messages (seq, dead, visible_at, receives, turn, owner, id, trace, attempt) VALUES (21, 0, 1795682444318, 0, 0, X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703960f764da1b4ef4fecf6f9a1', NULL, 2);
INSERT INTO messages (seq, dead, visible_at, receives, turn, owner, id, trace, attempt) VALUES (22, 0, 1795682453512, 1, 1795682419268, X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', NULL, 5);
INSERT INTO messages (seq, dead, visible_at, receives, turn, owner, id, trace, attempt) VALUES (23, 0, 1795682453554, 1, 1795682419269, X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703a11d72ba9e6652718f2c6c6a', NULL, 0);
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', 'step', 'step 1', '{"inline":"null"}', '{"at":1795682431876,"took_ms":1002,"attempt":1}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', 'step', 'step 2', '{"inline":"null"}', '{"at":1795682434402,"took_ms":1003,"attempt":2}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', 'step', 'step 3', '{"inline":"null"}', '{"at":1795682436918,"took_ms":1004,"attempt":3}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', 'step', 'step 4', '{"inline":"null"}', '{"at":1795682439444,"took_ms":1002,"attempt":4}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217036f847d9aa3f116cedc67c1bf', 'step', 'step 5', '{"inline":"null"}', '{"at":1795682441998,"took_ms":1009,"attempt":5}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', 'fact', '01a21703-721d-78cc-a93e-83715983777e', '{"inline":"{\"failed\":{\"message\":\"no retries are left after 3 failures in a row: the tool did not reach a step boundary within the time of its leg of 1500 ms; split it into shorter steps\",\"detail\":null}}"}', '{"at":1795682439119,"took_ms":null,"attempt":0}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', 'fact', '01a21703-721d-7b1f-93b2-27fdb2e8afc6', '{"inline":"{\"failed\":{\"message\":\"no retries are left after 3 failures in a row: the tool did not reach a step boundary within the time of its leg of 1500 ms; split it into shorter steps\",\"detail\":null}}"}', '{"at":1795682439119,"took_ms":null,"attempt":0}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', 'step', 'call 0', '{"inline":"{\"child\":\"01a21703-721d-78cc-a93e-83715983777e\",\"at\":1795682431521}"}', '{"at":1795682431528,"took_ms":7,"attempt":1}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703721d7eb299b5ba6de1e76990', 'step', 'call 1', '{"inline":"{\"child\":\"01a21703-721d-7b1f-93b2-27fdb2e8afc6\",\"at\":1795682431527}"}', '{"at":1795682431528,"took_ms":1,"attempt":1}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217038fcc7d26a8ae9c1b5089924e', 'step', 'try 1', '{"inline":"{\"failed\":{\"why\":\"the endpoint cannot be reached\"}}"}', '{"at":1795682439124,"took_ms":0,"attempt":1}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a217038fcc7d26a8ae9c1b5089924e', 'timer', '0', '{"inline":"1795682444504"}', '{"at":1795682439127,"took_ms":null,"attempt":1}');
INSERT INTO journal (owner, id, kind, name, value, recording) VALUES (X'6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', X'01a21703960f764da1b4ef4fecf6f9a1', 'step', 'wait', '{"inline":"null"}', '{"at":1795682440936,"took_ms":201,"attempt":1}');
INSERT INTO outbox (event, announcement) VALUES ('evt_01a21703-721d-78cc-a93e-83715983777e_failed_3', '{"task":{"owner":"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d","id":"01a21703-721d-78cc-a93e-83715983777e"},"what":"failed","attempt":3,"at":1795682439116,"tool":"countdown","message":"no retries are left"}');
PRAGMA application_id = 1279808844;
