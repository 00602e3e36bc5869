"""A permutation of range(n) that is computed, not stored: any element in constant time and memory.

Source: the generalized Feistel cipher with cycle walking of J. Black and P. Rogaway, "Ciphers with Arbitrary
Finite Domains" (CT-RSA 2002). A number x < a * b is split into (x mod a, x div a); each round adds a keyed hash of
one half to the other, modulo that half's size, which is invertible whatever the hash. A number that leaves
range(n) is encrypted again until it falls inside. With a = ceil(sqrt(n)) and b = ceil(n / a) at most about one in
sqrt(n) leaves. The hash is the finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014): it mixes well and is no cryptography.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np

ROUNDS = 8
MAX_LENGTH = 2**62

_GOLDEN = 0x9E3779B97F4A7C15
_EPOCH = 0xD1342543DE82EF95
_MASK = 2**64 - 1
_Cipher = Callable[[np.ndarray, int, np.ndarray], np.ndarray]

_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (27, 30, 31, 32))


def mix64(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer: a bijection of uint64 in which every input bit reaches every output bit."""
    mixed = values ^ (values >> _S30)
    mixed *= _M1
    mixed ^= mixed >> _S27
    mixed *= _M2
    mixed ^= mixed >> _S31
    return mixed


def stream_key(seed: int, epochs: np.ndarray, *, purpose: int) -> np.ndarray:
    """uint64 keys, one per epoch; another seed, epoch or purpose gives an unrelated key.

    Args:
        seed: 0 to 2^64 - 1.
        epochs: integers of any shape.
        purpose: keeps the uses of one (seed, epoch) apart.

    Raises:
        ValueError: for a seed that does not fit.
    """
    if not 0 <= seed <= _MASK:
        raise ValueError(f"seed is {seed}, expected 0 to 2^64 - 1")
    seeded = mix64(np.array([(seed + _GOLDEN * (purpose + 1)) & _MASK], np.uint64))
    return mix64(mix64(epochs.astype(np.uint64) * np.uint64(_EPOCH) + np.uint64(_GOLDEN)) ^ seeded)


def hash64(keys: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """uint64 random numbers: a function of key and counter alone."""
    return mix64(mix64(counters.astype(np.uint64) + np.uint64(_GOLDEN)) ^ keys)


def permute(indices: np.ndarray, n: int, *, seed: int, epochs: np.ndarray | int) -> np.ndarray:
    """Where each index goes in the permutation of range(n) that (seed, epoch) names.

    Args:
        indices: integers in range(n).
        n: length of the permutation, up to 2^62.
        seed: 0 to 2^64 - 1.
        epochs: one epoch, or one per index.

    Returns:
        int64, same shape; for one epoch and all indices every number of range(n) once.

    Raises:
        ValueError: for an n or seed that does not fit.
        IndexError: for an index outside range(n).
    """
    return _walk(indices, n, _encrypt, seed=seed, epochs=epochs)


def unpermute(values: np.ndarray, n: int, *, seed: int, epochs: np.ndarray | int) -> np.ndarray:
    """Which index `permute` takes to each value: its inverse, with the same arguments and errors."""
    return _walk(values, n, _decrypt, seed=seed, epochs=epochs)


def _walk(indices: np.ndarray, n: int, cipher: _Cipher, *, seed: int, epochs: np.ndarray | int) -> np.ndarray:
    if not 0 <= n <= MAX_LENGTH:
        raise ValueError(f"n is {n}, expected 0 to 2^62")
    indices = np.asarray(indices, np.int64)
    if indices.size == 0:
        return indices.copy()
    if indices.min() < 0 or indices.max() >= n:
        raise IndexError(f"indices run from {indices.min()} to {indices.max()}, expected 0 to {n - 1}")
    keys = _round_keys(seed, np.asarray(epochs, np.int64).reshape(-1))
    values = cipher(indices.reshape(-1).astype(np.uint64), n, keys)
    outside = np.flatnonzero(values >= np.uint64(n))
    while outside.size:
        walked = cipher(values[outside], n, keys if keys.shape[1] == 1 else keys[:, outside])
        values[outside] = walked
        outside = outside[walked >= np.uint64(n)]
    return values.astype(np.int64).reshape(indices.shape)


def _round_keys(seed: int, epochs: np.ndarray) -> np.ndarray:
    """(ROUNDS, number of epochs) uint64."""
    base = stream_key(seed, epochs, purpose=0)
    rounds = np.arange(1, ROUNDS + 1, dtype=np.uint64)[:, None]
    return mix64(base[None, :] + rounds * np.uint64(_GOLDEN))


def _encrypt(values: np.ndarray, n: int, keys: np.ndarray) -> np.ndarray:
    """One pass of the cipher over range(a * b), which holds range(n)."""
    root = isqrt(n - 1) + 1
    sizes = (np.uint64(root), np.uint64(-(-n // root)))
    halves = list(np.divmod(values, sizes[0]))[::-1]
    for number in range(ROUNDS):
        turn = number % 2
        size = sizes[turn]
        # The upper 32 bits of the hash scaled to the size of the half, which is below 2^32.
        moved = mix64(halves[1 - turn] ^ keys[number])
        moved >>= _S32
        moved *= size
        moved >>= _S32
        moved += halves[turn]
        # Modulo the size: below it, subtracting it wraps to a huge number. A division takes ten times as long.
        np.minimum(moved, moved - size, out=moved)
        halves[turn] = moved
    return halves[1] * sizes[0] + halves[0]


def _decrypt(values: np.ndarray, n: int, keys: np.ndarray) -> np.ndarray:
    """Takes back one pass of the cipher: the same hashes subtracted, from the last round to the first."""
    root = isqrt(n - 1) + 1
    sizes = (np.uint64(root), np.uint64(-(-n // root)))
    halves = list(np.divmod(values, sizes[0]))[::-1]
    for number in reversed(range(ROUNDS)):
        turn = number % 2
        size = sizes[turn]
        halves[turn] += size - (((mix64(halves[1 - turn] ^ keys[number]) >> _S32) * size) >> _S32)
        halves[turn] %= size
    return halves[1] * sizes[0] + halves[0]
