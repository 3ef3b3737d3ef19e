BEGIN TRANSACTION;
CREATE TABLE benchmarks (
    key TEXT PRIMARY KEY, totals BLOB NOT NULL, upper_bound REAL NOT NULL, error TEXT NOT NULL
) STRICT;
INSERT INTO "benchmarks" VALUES('c3ca4ff8ce2acbffa2ad6f922a4f5473-10',X'CDCCCCCCCCCCEC3FB6F3FDD478E9F83FDDB243FCC3F604402328B22DCA881240',4.63358374977032383412e+00,'');
INSERT INTO "benchmarks" VALUES('c3ca4ff8ce2acbffa2ad6f922a4f5473-20',X'CDCCCCCCCCCCEC3FBE30992A1895FD3FE0C29172BD2609400693C290CEAB2040',8.33556034446079507915e+00,'');
CREATE TABLE cells (
    key TEXT PRIMARY KEY, rewards BLOB NOT NULL, means BLOB NOT NULL, states BLOB NOT NULL,
    counts BLOB NOT NULL, basis TEXT NOT NULL, diagnostics TEXT NOT NULL, error TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;
INSERT INTO "cells" VALUES('15cf213c6e9bd1e4676ff615bebcae76',X'000000000000F03F000000000000004000000000000008400000000000000840',X'CDCCCCCCCCCCEC3F8195438B6CE7F13F18EE5C18E965054073C6D365D20F1240',X'000000000000F03FAE47E17A14AEFB3F41D47D0052DB0E4065B7DA78AC0B1A40',X'06000000000000000400000000000000','c3ca4ff8ce2acbffa2ad6f922a4f5473','{"means": [0.3333333333333333, 0.25], "plays": [6, 4]}','','');
INSERT INTO "cells" VALUES('bc0af4f09a344b826c396e5ad633f3fc',X'000000000000F03F000000000000F03F00000000000010400000000000001840',X'CDCCCCCCCCCCEC3F8195438B6CE7F13FC8091346B352064042B04DE607E01040',X'000000000000F03FAE47E17A14AEFB3F1878EE3D5CB20C40C2F8BEB72F6B1540',X'08000000000000000200000000000000','c3ca4ff8ce2acbffa2ad6f922a4f5473','{"means": [0.75, 0.0], "plays": [8, 2]}','','');
INSERT INTO "cells" VALUES('36802d5794435191f7338337da478453',X'',X'',X'',X'','','{}','InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1','Traceback (most recent call last):
  File "bdes_framework/experiment/cell.py", line 135, in execute
    trace = play(plugins, cell, environment, checkpoints, keep=False)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 180, in play
    policy = _build_policy(plugins, cell, environment)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 211, in _build_policy
    return plugins.policy(cell.policy.table, problem, seed=_seed(cell))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 90, in policy
    return cast(Policy, self._top(Kind.POLICY, ref, parameters, seed, problem))
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 192, in _top
    return self._build(entry, config, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 197, in _build
    built = entry.build(config, context)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "plugins/bdes_baselines/non_adaptive.py", line 73, in build_fixed_schedule
    raise InvalidValueError(
bdes_framework.errors.InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1
');
INSERT INTO "cells" VALUES('43399b655b3a0edf9da705da5d01c8b0',X'',X'',X'',X'','','{}','InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1','Traceback (most recent call last):
  File "bdes_framework/experiment/cell.py", line 135, in execute
    trace = play(plugins, cell, environment, checkpoints, keep=False)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 180, in play
    policy = _build_policy(plugins, cell, environment)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 211, in _build_policy
    return plugins.policy(cell.policy.table, problem, seed=_seed(cell))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 90, in policy
    return cast(Policy, self._top(Kind.POLICY, ref, parameters, seed, problem))
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 192, in _top
    return self._build(entry, config, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 197, in _build
    built = entry.build(config, context)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "plugins/bdes_baselines/non_adaptive.py", line 73, in build_fixed_schedule
    raise InvalidValueError(
bdes_framework.errors.InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1
');
INSERT INTO "cells" VALUES('5aa55a50914645b4922b5991f7ca4ef6',X'000000000000F03F000000000000004000000000000008400000000000001440',X'CDCCCCCCCCCCEC3FBE30992A1895FD3FB0390F40CD850B404A36ACDFED062040',X'000000000000F03F8716D9CEF7530440EAFA4F487C40144044FD3B6B9C322740',X'0C000000000000000800000000000000','c3ca4ff8ce2acbffa2ad6f922a4f5473','{"means": [0.3333333333333333, 0.125], "plays": [12, 8]}','','');
INSERT INTO "cells" VALUES('e439b72411d6bd130cae14bceb042d14',X'000000000000F03F000000000000004000000000000010400000000000002040',X'CDCCCCCCCCCCEC3FBE30992A1895FD3F37783616DA72094095E9B262E8141A40',X'000000000000F03F8716D9CEF75304400ACDBFA783CE1040B94BE1BE86AB2040',X'0F000000000000000500000000000000','c3ca4ff8ce2acbffa2ad6f922a4f5473','{"means": [0.5333333333333333, 0.0], "plays": [15, 5]}','','');
INSERT INTO "cells" VALUES('14cc5a92977a73762e34f3159e5ac9fc',X'',X'',X'',X'','','{}','InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1','Traceback (most recent call last):
  File "bdes_framework/experiment/cell.py", line 135, in execute
    trace = play(plugins, cell, environment, checkpoints, keep=False)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 180, in play
    policy = _build_policy(plugins, cell, environment)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 211, in _build_policy
    return plugins.policy(cell.policy.table, problem, seed=_seed(cell))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 90, in policy
    return cast(Policy, self._top(Kind.POLICY, ref, parameters, seed, problem))
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 192, in _top
    return self._build(entry, config, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 197, in _build
    built = entry.build(config, context)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "plugins/bdes_baselines/non_adaptive.py", line 73, in build_fixed_schedule
    raise InvalidValueError(
bdes_framework.errors.InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1
');
INSERT INTO "cells" VALUES('5a64673d39d68c39a223b9498146e8fa',X'',X'',X'',X'','','{}','InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1','Traceback (most recent call last):
  File "bdes_framework/experiment/cell.py", line 135, in execute
    trace = play(plugins, cell, environment, checkpoints, keep=False)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 180, in play
    policy = _build_policy(plugins, cell, environment)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/experiment/cell.py", line 211, in _build_policy
    return plugins.policy(cell.policy.table, problem, seed=_seed(cell))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 90, in policy
    return cast(Policy, self._top(Kind.POLICY, ref, parameters, seed, problem))
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 192, in _top
    return self._build(entry, config, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "bdes_framework/plugin/plugins.py", line 197, in _build
    built = entry.build(config, context)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "plugins/bdes_baselines/non_adaptive.py", line 73, in build_fixed_schedule
    raise InvalidValueError(
bdes_framework.errors.InvalidValueError: the schedule plays arm 7, but arms go from 0 to 1
');
CREATE TABLE checkpoints (horizon INTEGER PRIMARY KEY, rounds BLOB NOT NULL) STRICT;
INSERT INTO "checkpoints" VALUES(10,X'0100000000000000020000000000000005000000000000000A00000000000000');
INSERT INTO "checkpoints" VALUES(20,X'0100000000000000030000000000000007000000000000001400000000000000');
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO "meta" VALUES('name','made by 0.1.0');
INSERT INTO "meta" VALUES('identity','9478c95f0f372107113ebf33d951f5c98f86b95bea1feb0e5d89204abef84cc1');
CREATE TABLE plan (
    position INTEGER PRIMARY KEY, key TEXT NOT NULL, environment TEXT NOT NULL,
    policy TEXT NOT NULL, horizon INTEGER NOT NULL, replication INTEGER NOT NULL
) STRICT;
INSERT INTO "plan" VALUES(0,'15cf213c6e9bd1e4676ff615bebcae76','ads','ucb1',10,0);
INSERT INTO "plan" VALUES(1,'bc0af4f09a344b826c396e5ad633f3fc','ads','ucb1',10,1);
INSERT INTO "plan" VALUES(2,'36802d5794435191f7338337da478453','ads','fixed-schedule',10,0);
INSERT INTO "plan" VALUES(3,'43399b655b3a0edf9da705da5d01c8b0','ads','fixed-schedule',10,1);
INSERT INTO "plan" VALUES(4,'5aa55a50914645b4922b5991f7ca4ef6','ads','ucb1',20,0);
INSERT INTO "plan" VALUES(5,'e439b72411d6bd130cae14bceb042d14','ads','ucb1',20,1);
INSERT INTO "plan" VALUES(6,'14cc5a92977a73762e34f3159e5ac9fc','ads','fixed-schedule',20,0);
INSERT INTO "plan" VALUES(7,'5a64673d39d68c39a223b9498146e8fa','ads','fixed-schedule',20,1);
CREATE TABLE timings (key TEXT PRIMARY KEY, seconds REAL NOT NULL, finished TEXT NOT NULL) STRICT;
INSERT INTO "timings" VALUES('15cf213c6e9bd1e4676ff615bebcae76',8.49235593999765114858e-01,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('bc0af4f09a344b826c396e5ad633f3fc',1.02417700327350758016e-03,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('36802d5794435191f7338337da478453',1.13970099846483208239e-03,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('43399b655b3a0edf9da705da5d01c8b0',0.000679130000207806,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('5aa55a50914645b4922b5991f7ca4ef6',6.78227999742375686764e-04,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('e439b72411d6bd130cae14bceb042d14',6.08274000114761292934e-04,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('14cc5a92977a73762e34f3159e5ac9fc',4.78219099750276654958e-03,'2026-11-18T13:56:11+00:00');
INSERT INTO "timings" VALUES('5a64673d39d68c39a223b9498146e8fa',6.40001002466306090354e-04,'2026-11-18T13:56:11+00:00');
COMMIT;
PRAGMA user_version = 1;
