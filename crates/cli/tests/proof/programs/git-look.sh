for repository in clone origin; do
  cd $repository
  git fsck --full --strict 2>&1
  git status --short --branch
  git log --format='%H'
  git ls-files -s
  cd ..
done
