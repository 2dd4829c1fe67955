git init -q -b main origin
cd origin
for commit in 1 2 3 4 5 6 7 8; do
  mkdir -p "dir$commit"
  for file in 1 2 3 4 5 6 7 8 9 10; do echo "line $commit $file" >> "dir$commit/file$file"; echo "again $commit" >> "file$file"; done
  git add -A
  git commit -q -m "commit $commit"
done
git tag middle HEAD~4
