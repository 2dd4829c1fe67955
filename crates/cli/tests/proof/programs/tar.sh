list() { (cd "$1" && find . -printf '%p %y %m %s %l\n' | sort && find . -type f -exec sha256sum {} + | sort) | grep -v ' d [0-9]* [0-9]* $' ; }
tar cf archive.tar tree
mkdir one two
tar xpf archive.tar -C one
diff -r --no-dereference tree one/tree
cp -a tree two/copy
cp -a --reflink=auto tree/numbers two/numbers
cmp tree/numbers two/numbers
stat -c '%n %y' tree/file3 tree/deep one/tree/file3 two/copy/deep | cut -c1-60
mv one/tree one/renamed
mv tree moved || { cp -a tree moved && rm -rf tree; }
list moved > moved.list; list one/renamed > renamed.list; cmp moved.list renamed.list
rm -rf two
find . -name 'file1*' | sort | sha256sum
sha256sum moved.list
