"""Writes files in the directory it is started in. Prints, after each fsync, what must survive a loss of power now:
the time, the name and the length. The content of a file follows from its name."""
import os
import random
import sys
import time

dice = random.Random(int(sys.argv[1]))
rounds = int(sys.argv[2])


def content(name, length):
    unit = (name + ";").encode()
    return (unit * (length // len(unit) + 1))[:length]


def say(*words):
    print(f"{time.time():.6f}", *words, flush=True)


def write(name, length, start=0, sync=True, final=None):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    data = content(final or name, length)
    while start < length:
        start += os.pwrite(fd, data[start : start + dice.choice([1000, 50_000, 200_000])], start)
    if sync:
        os.fsync(fd)
    os.close(fd)


lengths = {}
for number in range(rounds):
    kind = dice.randrange(10)
    name = f"file-{number}"
    length = dice.choice([0, 10, 3000, 3000, 3000, 20_000, 70_000, 300_000])
    if kind < 3:
        write(name, length)
        say("kept", name, length)
        lengths[name] = length
    elif kind < 5:
        write("tmp", length, final=name)
        os.rename("tmp", name)
        folder = os.open(".", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        say("kept", name, length)
        lengths[name] = length
    elif kind == 5 and lengths:
        name = dice.choice(sorted(lengths))
        longer = lengths[name] + dice.choice([1, 5000, 100_000])
        write(name, longer, start=lengths[name])
        say("kept", name, longer)
        lengths[name] = longer
    elif kind == 6 and lengths:
        name = dice.choice(sorted(lengths))
        del lengths[name]
        say("gone", name, 0)
        os.unlink(name)
    elif kind == 7:
        os.makedirs(f"dir-{number}/deep", exist_ok=True)
        write(f"dir-{number}/deep/{number}", length)
        say("kept", f"dir-{number}/deep/{number}", length)
    else:
        write(name, length, sync=False)
    if dice.randrange(4) == 0:
        time.sleep(dice.random() * 0.02)
