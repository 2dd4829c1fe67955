for mode in delete truncate persist wal; do
  {
    echo "pragma journal_mode=$mode; create table t(a integer primary key, b blob);"
    for n in 1 2 3 4 5 6 7 8 9 10; do
      echo "begin; insert into t(b) select hex(value * $n) || zeroblob(200) from generate_series(1, 300); commit; delete from t where a % $n = 3;"
    done
    echo "begin; delete from t; rollback; vacuum; pragma integrity_check; select count(*), sum(a), sum(length(b)) from t;"
  } | sqlite3 "$mode.db"
done
(for n in 1 2 3 4 5; do sqlite3 -cmd '.timeout 60000' wal.db "insert into t(b) values ('left $n')"; done) &
(for n in 1 2 3 4 5; do sqlite3 -cmd '.timeout 60000' wal.db "insert into t(b) values ('right $n')"; done) &
wait
sqlite3 wal.db "select count(*) from t where b like 'left %' or b like 'right %'"
sqlite3 base.db "update t set b = b || 'x' where a % 2; delete from t where a % 5 = 0; pragma integrity_check; select count(*), sum(length(b)) from t"
sqlite3 base.db "vacuum into 'copy.db'"
