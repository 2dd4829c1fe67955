mkdir -p tree/empty tree/deep/er/and/deeper
for n in $(seq 1 300); do echo "file $n" > "tree/file$n"; echo "deep $n" > "tree/deep/er/$n"; done
seq 1 100000 > tree/numbers
truncate -s 3M tree/sparse
ln -s ../numbers tree/deep/link; ln -s nowhere tree/dangling
chmod 755 tree/file1; chmod 600 tree/file2; mkdir -m 700 tree/private
touch -d 2001-02-03T04:05:06.123456789 tree/file3 tree/deep
