# overlayfs gives a base file another inode number when it gets a second name, and git notices.
[ "$ENGINE" != Overlay ] || hardlinks=--no-hardlinks
git clone -q ${hardlinks:-} origin clone
cd clone
git checkout -q -b topic middle
echo topic > topic; git add topic; git commit -q -m topic
echo more >> dir1/file1; git commit -qam more
git rebase -q main
git checkout -q main
git merge -q --no-edit topic
git mv dir2 moved
git rm -q -r dir3
git commit -qm "move and remove"
git stash list
echo dirty > dirty; git stash -q -u; git stash pop -q; rm dirty
git gc -q
git fsck --full --strict 2>&1
git status --short --branch
cd ../origin
echo changed >> dir5/file1; git commit -qam "in the base's repository"
# overlayfs does not rename a directory of the base either (EXDEV).
if [ "$ENGINE" = Overlay ]; then cp -a dir4 dir4-moved; git rm -q -r dir4; git add dir4-moved; else git mv dir4 dir4-moved; fi
git commit -qm "move a directory of the base"
git repack -q -a -d; git prune; git fsck --full --strict 2>&1
git status --short --branch
git -C ../clone pull -q --rebase
git -C ../clone log --format='%H %s'
git log --format='%H %s'
