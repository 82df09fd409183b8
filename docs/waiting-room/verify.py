#!/usr/bin/env python3
"""Checks the draw of a waiting room, from the file that GET /v1/rooms/{room}/draw.csv answers. Needs nothing but Python.

    curl -s https://shop.example/v1/rooms/shoes/draw.csv | python3 verify.py

Compare the commitment with the one that the room showed before its start, and the signature of a beacon with what a relay of
drand answers for the round: Python cannot verify it.
"""
import hashlib, hmac, sys

lines = [line.rstrip("\n").split(",") for line in sys.stdin]
columns = next(i for i, fields in enumerate(lines) if fields[0] == "index")
head, places = {fields[0]: fields[1] for fields in lines[:columns]}, lines[columns + 1 :]
secret, n = bytes.fromhex(head["secret"]), int(head["n"])


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def root(hashes):  # the Merkle tree of RFC 6962
    if len(hashes) <= 1:
        return hashes[0] if hashes else sha()
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return sha(b"\x01", root(hashes[:split]), root(hashes[split:]))


def position(seed, n, index):  # a Feistel network of ten rounds, repeated while the result is n or above
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    while True:
        left, right = index >> half, index & (1 << half) - 1
        for r in range(10):
            mac = hmac.new(seed, bytes([r]) + right.to_bytes(8, "big"), hashlib.sha256).digest()
            left, right = right, left ^ int.from_bytes(mac[:8], "big") & (1 << half) - 1
        index = left << half | right
        if index < n:
            return index


leaves = [sha(b"\x00", "\n".join([head["room"], *fields[:-1]]).encode()) for fields in places]
beacon = bytes.fromhex(head.get("signature", ""))  # of the round of drand, in a room with a beacon
seed = sha(b"tidegate draw with beacon\n" if "beacon" in head else b"tidegate draw\n", secret, bytes.fromhex(head["root"]), beacon)
lanes = {}  # positions by lane, which is "" in a room without lanes
for fields in places:
    lanes.setdefault("".join(fields[3:-1]), []).append(int(fields[-1]))
seeds = {lane: sha(b"tidegate lane\n", seed, lane.encode()) if lane else seed for lane in lanes}
checks = {
    "the secret is the committed one": sha(secret).hex() == head["commitment"],
    "the list has all places": len(leaves) == n and all(int(f[0]) == i for i, f in enumerate(places)),
    "the root is of this list": root(leaves).hex() == head["root"],
    "the seed is of secret, root and beacon": seed.hex() == head["seed"],
    "every position is of the seed": all(position(seeds[lane], len(at), i) + 1 == p for lane, at in lanes.items() for i, p in enumerate(at)),
}
if "beacon" in head:  # the first round 10 s after the start, or 10 s after a list that was completed late
    starts, listed, at = int(head["starts_ms"]), int(head["listed_ms"]), lambda r: 1692803367000 + 3000 * (r - 1)
    first = lambda ms: -(-(ms - 1692803367000) // 3000) + 1
    round_ = first(starts + 10_000)
    checks["the round is the one of start and list"] = starts <= listed and int(head["round"]) == (round_ if at(round_) >= listed + 3000 else first(listed + 10_000))
for what, ok in checks.items():
    print("ok   " if ok else "WRONG", what)
print(f"{n} places, commitment {head['commitment']}")
if "beacon" in head:
    print(f"NOT CHECKED: the signature of round {head['round']}. Compare it with what a relay of drand answers: {beacon.hex()}")
sys.exit(not all(checks.values()))
