sqlite3 base.db 'pragma journal_mode=wal; create table t(a integer primary key, b text); insert into t select value, hex(value * 7919) from generate_series(1, 3000);' > /dev/null
