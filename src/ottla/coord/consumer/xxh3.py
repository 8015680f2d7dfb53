"""The 64-bit hash XXH3 (seed 0), by which Kafka detects changes of a group's topics (KIP-1101).

It is meant for inputs of a few kilobytes that are hashed when topics change, not for bulk data: long ones can be hashed with
pauses.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

from ottla.coord.consumer.assign import Pauses, finish

_MASK: Final = (1 << 64) - 1
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIME32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64: Final = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MIX_1: Final = 0x165667919E3779F9
_MIX_2: Final = 0x9FB21C651E98DF25
_STRIPE, _SECRET_STEP = 64, 8
_BETWEEN_PAUSES: Final = 100
"""Stripes of 64 bytes hashed between two pauses."""
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // _SECRET_STEP
_START: Final = (_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0])


def xxh3_64(data: bytes) -> int:
    """Return the hash, from 0 to 2**64 - 1."""
    return finish(xxh3_64_slowly(data))


def xxh3_64_slowly(data: bytes) -> Pauses[int]:
    """Return the hash, computed with pauses."""
    size = len(data)
    if size <= 16:
        return _upto_16(data)
    if size <= 128:
        return _upto_128(data)
    return _upto_240(data) if size <= 240 else (yield from _long(data))


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(left: int, right: int) -> int:
    """Return the 128-bit product, its upper half XORed with its lower half."""
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _MIX_1 & _MASK
    return value ^ value >> 32


def _last_mix(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64[1] & _MASK
    value = (value ^ value >> 29) * _PRIME64[2] & _MASK
    return value ^ value >> 32


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _upto_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _fold(low, high) & _MASK)
    if size >= 4:
        keyed = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        mixed = (keyed ^ _turned(keyed, 49) ^ _turned(keyed, 24)) * _MIX_2 & _MASK
        mixed = (mixed ^ (mixed >> 35) + size) * _MIX_2 & _MASK
        return mixed ^ mixed >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _last_mix(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _last_mix(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix_16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _upto_128(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64[0]
    for index in range((size - 1) // 32 + 1):
        total += _mix_16(data, 16 * index, 32 * index)
        total += _mix_16(data, size - 16 * (index + 1), 32 * index + 16)
    return _avalanche(total & _MASK)


def _upto_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64[0] + sum(_mix_16(data, 16 * index, 16 * index) for index in range(8))
    total = _avalanche(total & _MASK)
    total += sum(_mix_16(data, 16 * index, 16 * (index - 8) + 3) for index in range(8, size // 16))
    total += _mix_16(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _long(data: bytes) -> Pauses[int]:
    size = len(data)
    lanes = list(_START)
    stripes = (size - 1) // _STRIPE
    for number in range(stripes):
        step = number % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, number * _STRIPE, step * _SECRET_STEP)
        if step == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
        if number % _BETWEEN_PAUSES == _BETWEEN_PAUSES - 1:
            yield None
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64[0]
    for index in range(4):
        secret_at = 11 + 16 * index
        left = lanes[2 * index] ^ _u64(_SECRET, secret_at)
        total += _fold(left, lanes[2 * index + 1] ^ _u64(_SECRET, secret_at + 8))
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = unpack_from("<8Q", data, at)
    for lane, (value, secret) in enumerate(zip(values, unpack_from("<8Q", _SECRET, secret_at), strict=True)):
        keyed = value ^ secret
        lanes[lane ^ 1] = lanes[lane ^ 1] + value & _MASK
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    for lane, secret in enumerate(unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE)):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ secret) * _PRIME32[0] & _MASK
