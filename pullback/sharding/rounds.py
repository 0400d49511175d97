"""Schedules of messages between devices: who sends to whom, in which round.

A device sends at most one message and receives at most one in a round, as in a collective permute.
"""

from __future__ import annotations

from collections.abc import Sequence


def rounds(messages: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the numbers of the messages (source, target) of each round.

    There are as many rounds as the busiest device sends or receives messages. (Koenig: the edges
    of a bipartite graph have a coloring with as many colors as the largest degree.)
    """
    sent: list[dict[int, int]] = [{} for _ in range(_devices_in_rounds(messages))]  # by round
    received: list[dict[int, int]] = [{} for _ in sent]
    for number, (source, target) in enumerate(messages):
        mine, other = _first_free_round(sent[source]), _first_free_round(received[target])
        if mine in received[target]:
            _swap_rounds(messages, sent, received, target, mine, other)
        sent[source][mine] = received[target][mine] = number
    found: dict[int, list[int]] = {}
    for turns in sent:
        for turn, number in turns.items():
            found.setdefault(turn, []).append(number)
    return [sorted(found[turn]) for turn in sorted(found)]


def _devices_in_rounds(messages: Sequence[tuple[int, int]]) -> int:
    return 1 + max([i for message in messages for i in message], default=-1)


def _first_free_round(taken: dict[int, int]) -> int:
    return next(turn for turn in range(len(taken) + 1) if turn not in taken)


def _swap_rounds(
    messages: Sequence[tuple[int, int]], sent: list[dict[int, int]],
    received: list[dict[int, int]], target: int, mine: int, other: int,
) -> None:  # fmt: skip
    """Exchange two rounds along the path of messages that begins at a target."""
    path, turn = [], mine
    at = received[target].get(turn)
    while at is not None:
        path.append((at, turn))
        source, end = messages[at]
        side = sent[source] if turn == mine else received[end]
        turn = other if turn == mine else mine
        at = side.get(turn)
    for number, turn in path:
        source, end = messages[number]
        for taken in (sent[source], received[end]):
            if taken.get(turn) == number:
                del taken[turn]
    for number, turn in path:
        source, end = messages[number]
        new = other if turn == mine else mine
        sent[source][new] = received[end][new] = number


def balanced_rounds(owners: Sequence[Sequence[int]]) -> list[int]:
    """Return one of the owners of each item, so that the busiest one has as few as possible."""
    limit = -(-len(owners) // max(1, _owner_count_of_round(owners)))
    while True:
        held: dict[int, list[int]] = {}
        if all(_place_in_round(item, owners, held, limit, set()) for item in range(len(owners))):
            return [s for _, s in sorted((item, s) for s, items in held.items() for item in items)]
        limit += 1


def _owner_count_of_round(owners: Sequence[Sequence[int]]) -> int:
    return len({s for some in owners for s in some})


def _place_in_round(
    item: int, owners: Sequence[Sequence[int]], held: dict[int, list[int]], limit: int, seen: set
) -> bool:
    """Give an item to one of its owners; items that were placed before may move."""
    free = [s for s in owners[item] if len(held.get(s, ())) < limit]
    if free:
        held.setdefault(min(free, key=lambda s: len(held.get(s, ()))), []).append(item)
        return True
    for s in owners[item]:
        if s not in seen:
            seen.add(s)
            for i, other in enumerate(held[s]):
                if _place_in_round(other, owners, held, limit, seen):
                    held[s][i] = item
                    return True
    return False


def device_groups_of_rounds(messages: Sequence[tuple[int, int]], count: int) -> list[list[int]]:
    """Return the groups of devices that exchange messages, directly or through others."""
    leader = list(range(count))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = i = leader[leader[i]]
        return i

    for source, target in messages:
        low, high = sorted((find(source), find(target)))
        leader[high] = low
    groups: dict[int, list[int]] = {}
    for i in range(count):
        groups.setdefault(find(i), []).append(i)
    return list(groups.values())
