for database in delete truncate persist wal base copy; do
  sqlite3 $database.db 'pragma integrity_check; select count(*), sum(a), sum(length(b)) from t'
done
