BEGIN TRANSACTION;
CREATE TABLE records (
            id TEXT PRIMARY KEY, time TEXT NOT NULL, session TEXT NOT NULL,
            trial INTEGER NOT NULL, workload TEXT NOT NULL, structure TEXT NOT NULL,
            name TEXT NOT NULL, target TEXT NOT NULL, machine TEXT NOT NULL,
            status TEXT NOT NULL, numerics TEXT NOT NULL, median REAL,
            believed INTEGER NOT NULL, payload TEXT NOT NULL
        );
INSERT INTO "records" VALUES('c72765fd4c6c397c6a354ada62dcdeec','2026-01-01T00:00:00.000Z','s',0,'key4','structure','scale','c','m','ok','bitwise',4.0,1,'{"build_seconds":null,"decisions":null,"error":"","features":[],"id":"c72765fd4c6c397c6a354ada62dcdeec","machine":{},"machine_key":"m","median":4.0,"numerics":"bitwise","predicted":null,"schema":1,"seed":0,"session":"s","settings":{},"sketch":"","source_hash":"","status":"ok","target":"c","time":"2026-01-01T00:00:00.000Z","times":[4.0],"toolchain":{},"trace":[],"trial":3,"verdict":{"checked":true,"max_error":0.0,"tolerance":0.0},"workload":{"key":"key4","name":"scale","shapes":[["A",[8,4],"float32"]],"structure":"structure","text":"text"}}');
INSERT INTO "records" VALUES('092a0c50a66c733adaf17d66e8d909f5','2026-01-01T00:00:00.000Z','s',0,'key4','structure','scale','c','m','ok','bitwise',2.0,1,'{"build_seconds":null,"decisions":null,"error":"","features":[],"id":"092a0c50a66c733adaf17d66e8d909f5","machine":{},"machine_key":"m","median":2.0,"numerics":"bitwise","predicted":null,"schema":1,"seed":0,"session":"s","settings":{},"sketch":"","source_hash":"","status":"ok","target":"c","time":"2026-01-01T00:00:00.000Z","times":[2.0],"toolchain":{},"trace":[],"trial":1,"verdict":{"checked":true,"max_error":0.0,"tolerance":0.0},"workload":{"key":"key4","name":"scale","shapes":[["A",[8,4],"float32"]],"structure":"structure","text":"text"}}');
INSERT INTO "records" VALUES('704c870c85c104f83c58ca830241f4a2','2026-01-01T00:00:00.000Z','s',0,'key4','structure','scale','c','m','ok','bitwise',3.0,1,'{"build_seconds":null,"decisions":null,"error":"","features":[],"id":"704c870c85c104f83c58ca830241f4a2","machine":{},"machine_key":"m","median":3.0,"numerics":"bitwise","predicted":null,"schema":1,"seed":0,"session":"s","settings":{},"sketch":"","source_hash":"","status":"ok","target":"c","time":"2026-01-01T00:00:00.000Z","times":[3.0],"toolchain":{},"trace":[],"trial":2,"verdict":{"checked":true,"max_error":0.0,"tolerance":0.0},"workload":{"key":"key4","name":"scale","shapes":[["A",[8,4],"float32"]],"structure":"structure","text":"text"}}');
CREATE INDEX records_best ON records (workload, target, machine, believed, median);
CREATE INDEX records_structure ON records (structure, target, machine);
CREATE INDEX records_session ON records (session, trial);
COMMIT;
PRAGMA user_version = 1;
PRAGMA application_id = 0;
