"""Random numbers as functions of (seed, purpose, epoch, sample): Philox4x32-10 (Salmon et al., SC'11) behind SplitMix64's mixer."""
import math
import statistics

import numpy

MASK32, MASK64 = 2**32 - 1, 2**64 - 1
AUGMENTATION, PERMUTATION, SPLIT, FAKE_PIXELS, FAKE_LABEL, WINDOW, BATCH_MIX, MODEL = range(1, 9)
DROP, BALANCE = 11, 12


def mix(x):
    """SplitMix64's output function of a state of x."""
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def philox(counter, key):
    """One block: four words from a counter of four and a key of two."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK32, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK32]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c


QUANTILES = numpy.array([statistics.NormalDist().inv_cdf((i + 0.5) / 4096) for i in range(4096)], numpy.float32)


class Random:
    """One stream: the words of the blocks 0, 1, 2 ... in order."""

    def __init__(self, seed, purpose, epoch, sample):
        key = mix((mix(seed) + purpose) & MASK64)
        self.key, self.counter, self.words = (key & MASK32, key >> 32), [0, sample & MASK32, sample >> 32, epoch & MASK32], []

    def bits(self):
        if not self.words:
            self.words = philox(self.counter, self.key)
            self.counter[0] = (self.counter[0] + 1) & MASK32
        return self.words.pop(0)

    def uniform(self, low=0.0, high=1.0):
        """53 bits: the first word above the second."""
        first, second = self.bits(), self.bits()
        return low + (high - low) * (((first << 21) ^ (second >> 11)) * 2.0**-53)

    def below(self, count):
        """Lemire's method, without bias."""
        while True:
            product = self.bits() * count
            if product & MASK32 >= (2**32 - count) % count:
                return product >> 32

    def normals(self, count):
        """The 4,096 equally likely quantiles, two from a word."""
        words = numpy.array([self.bits() for _ in range((count + 1) // 2)], numpy.int64)
        return QUANTILES[numpy.stack([words >> 20, words & 4095], 1).ravel()[:count]]

    def gamma_logarithm(self, shape):
        """log of a draw from Gamma(shape, 1): Marsaglia and Tsang 2000, small shapes by Gamma(a) = Gamma(a + 1) U^(1/a)."""
        positive = lambda: max(self.uniform(), 2.0**-54)  # noqa: E731
        boost = math.log(positive()) / shape if shape < 1 else 0.0
        d = (shape + 1 if shape < 1 else shape) - 1 / 3
        while True:
            radius = math.sqrt(-2 * math.log(positive()))
            x = radius * math.cos(2 * math.pi * self.uniform())
            v = (1 + x / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log(positive()) < 0.5 * x * x + d - d * v + d * math.log(v):
                return boost + math.log(d * v)

    def symmetric_beta(self, alpha):
        first, second = self.gamma_logarithm(alpha), self.gamma_logarithm(alpha)
        return 1 / (1 + math.exp(second - first))
