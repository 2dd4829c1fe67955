ls
find . -printf '%p %y %l\n' | sort | sha256sum
find . -type f -not -name archive.tar -exec sha256sum {} + | sort | sha256sum
