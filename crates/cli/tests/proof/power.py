"""Writes files in the directory it is started in. Prints, after each fsync, what must survive a loss of power now:
the time, the name and the length. The content of a file follows from its name. Files named as arguments are made, unless
they are there: then they were kept before."""
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


def grow(name, sync):
    longer = lengths[name] + dice.choice([1, 5000, 100_000])
    write(name, longer, start=lengths[name], sync=sync)
    return longer


lengths = {}
for name in sys.argv[3:]:
    if not os.path.exists(name):
        write(name, 300_000)
    lengths[name] = os.path.getsize(name)
    say("kept", name, lengths[name])
early = list(lengths)
for number in range(rounds):
    kind = dice.randrange(11)
    name = f"file-{number}"
    length = dice.choice([0, 10, 3000, 3000, 3000, 20_000, 70_000, 300_000])
    if lengths and (early or kind == 10):
        # Data written from now on may be lost, earlier data may not.
        grow(early.pop() if early else dice.choice(sorted(lengths)), sync=False)
    elif kind < 3:
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
        lengths[name] = grow(name, sync=True)
        say("kept", name, lengths[name])
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
