"""Which sample comes when: keyed permutations (a Feistel network with cycle walking), windows, splits, ranks' batches."""
from .random_numbers import BALANCE, MASK64, PERMUTATION, SPLIT, WINDOW, Random, mix


def permutation(size, seed, epoch, purpose=PERMUTATION):
    """0 ... size-1 in the order of (seed, epoch)."""
    half = 1
    while 4**half < size:
        half += 1
    random, mask = Random(seed, purpose, epoch, 0), 2**half - 1
    keys = [random.bits() << 32 | random.bits() for _ in range(8)]

    def once(number):
        left, right = number >> half, number & mask
        for key in keys:
            left, right = right, left ^ (mix(right ^ key) & mask)
        return left << half | right

    def walked(position):
        number = once(position)
        while number >= size:
            number = once(number)
        return number

    return [walked(position) for position in range(size)]


def epoch_order(size, seed, epoch, window=0):
    """The epoch's samples in order; with a window, 64 windows mixed at a time and the rest somewhere between."""
    windows = size // window if window else 0
    if not windows:
        return permutation(size, seed, epoch)
    order, mixed = permutation(windows, seed, epoch), []
    for group in range((windows + 63) // 64):
        some = order[64 * group : 64 * (group + 1)]
        within = permutation(len(some) * window, mix((seed + group + 1) & MASK64), epoch, WINDOW)
        mixed += [some[i // window] * window + i % window for i in within]
    rest = size - windows * window
    at = int(Random(seed, WINDOW, epoch, 0).uniform() * (windows * window + 1))
    tail = [windows * window + i for i in permutation(rest, mix(seed), epoch, WINDOW)] if rest else []
    return mixed[:at] + tail + mixed[at:]


def balanced_order(labels, seed, epoch):
    """As many samples as there are: at each position a random one of a random class."""
    of_class = [[i for i, label in enumerate(labels) if label == one] for one in sorted(set(labels))]

    def sample(position):
        random = Random(seed, BALANCE, epoch, position)
        of_this = of_class[random.below(len(of_class))]
        return of_this[random.below(len(of_this))]

    return [sample(position) for position in range(len(labels))]


def split(size, seed):
    """(train, valid, test) by 85, 10 and 5 per cent, rounded down; what is left over goes to them in turn."""
    sizes = [size * part // 100 for part in (85, 10, 5)]
    for i in range(size - sum(sizes)):
        sizes[i % 3] += 1
    order = permutation(size, seed, 0, SPLIT)
    return order[: sizes[0]], order[sizes[0] : sizes[0] + sizes[1]], order[sizes[0] + sizes[1] :]


def steps_of_epoch(size, batch, ranks, accumulation, pad):
    whole = batch * ranks * accumulation
    return -(-size // whole) if pad else size // whole


def micro_batches(order, step, batch, ranks, accumulation, repetitions=1, balanced=False):
    """[micro-batch][rank] -> (first position, [(sample, counted, repetition)]) of a step. Repetitions go to the ranks in turn, as
    torchvision's RASampler has it. A balanced epoch draws samples again and again: each draw is a repetition of its own."""
    found, size = [], len(order)
    for micro in range(accumulation):
        begin = (step * accumulation + micro) * batch * ranks
        positions = [range(begin + rank * batch, begin + (rank + 1) * batch) if repetitions == 1 else
                     range(begin + rank, begin + batch * ranks, ranks) for rank in range(ranks)]
        repetition = lambda p: p % size if balanced else p % size % repetitions  # noqa: E731
        found.append([(of_rank[0], [(order[p % size // repetitions], p < size, repetition(p)) for p in of_rank]) for of_rank in positions])
    return found
