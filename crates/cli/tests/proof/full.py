"""Fills the file system it is started in, and checks that it was told so and that nothing got lost."""
import errno
import os
import shutil
import sys
import threading
import time


def put(path, content):
    with open(path, "wb", buffering=0) as file:
        for start in range(0, len(content), 100_000):
            file.write(content[start : start + 100_000])


def full(path, content):
    try:
        put(path, content)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        return True
    return False


def read(path):
    with open(path, "rb") as file:
        return file.read()


put("kept", b"k" * 100_000)
greedy = open("greedy", "wb", buffering=0)
greedy.write(b"g" * 200_000)
os.mkdir("many")
count = 0
while not full(f"many/{count}", b"m" * 3000):
    count += 1
    assert count < 20_000, "24 MiB hold more than they can"
assert count > 1000, count
assert full("large", b"l" * (40 << 20)), "a large file fits on a full disk"
for number in range(count):
    assert read(f"many/{number}") == b"m" * 3000, number
assert read("kept") == b"k" * 100_000
assert read("old") == b"old\n"
assert full("old", b"o" * (4 << 20)), "a base file grows on a full disk"
if os.path.exists("large"):
    os.unlink("large")


def take():
    """Takes what is left of the disk, and whatever becomes free: it does not listen."""
    while not enough.is_set():
        try:
            greedy.write(b"g" * 65536)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error


enough = threading.Event()
other = threading.Thread(target=take)
other.start()
shutil.rmtree("many")
enough.set()
other.join()
greedy.close()
os.unlink("greedy")
# Small files can use the space of content stored as a whole after a moment, and large ones after the next mount.
def soon(act, *words):
    for _ in range(50):
        try:
            return act(*words)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            time.sleep(0.1)
    return act(*words)


soon(os.mkdir, "few")
for number in range(count // 2):
    soon(put, f"few/{number}", b"f" * 3000)
shutil.rmtree("few")
assert read("kept") == b"k" * 100_000
print(count, "small files fitted", file=sys.stderr)
