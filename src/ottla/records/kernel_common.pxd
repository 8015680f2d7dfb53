# cython: boundscheck=False, wraparound=False, cdivision=True
# The functions that the kernels share, compiled: C inlines only visible bodies. `kernel_common.py` has them in Python.

from libc.string cimport memcpy

cdef enum:
    SPAN_COLUMNS = 6
    IS_BROKEN = -2
    IS_DOUBTFUL = -3
    AT = 0
    INDEX = 1
    STAGE = 2
    LEFT = 3
    SKIP = 4
    HEADERS = 5
    DIGITS = 6
    NEWEST = 7
    TIMESTAMP = 8
    HAS_KEY = 9
    WALK_STATES = 10
    LENGTH = 0
    ATTRIBUTES = 1
    AGE = 2
    DELTA = 3
    KEY = 4
    VALUE = 5
    COUNT = 6
    NAME = 7
    CONTENT = 8
    HEADER_BYTES = 61
    LENGTH_FROM = 12
    MAGIC_AT = 16
    CRC_FROM = 21
    LOG_APPEND_TIME_BIT = 8
    LARGEST_INT = 0x7FFFFFFF

cdef inline (long long, Py_ssize_t) zigzag(const unsigned char[::1] buf, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long number
    if pos < end and buf[pos] < 0x80:
        number = buf[pos]
        return <long long>(number >> 1) ^ -<long long>(number & 1), pos + 1
    if pos + 1 < end and buf[pos + 1] < 0x80:
        number = (buf[pos] & 0x7F) | (buf[pos + 1] << 7)
        return <long long>(number >> 1) ^ -<long long>(number & 1), pos + 2
    return long_zigzag(buf, pos, end)

cdef inline (long long, Py_ssize_t) long_zigzag(const unsigned char[::1] buf, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long number = 0
    cdef unsigned long long byte
    cdef int shift = 0
    while pos < end and shift < 70:
        byte = buf[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return <long long>(number >> 1) ^ -<long long>(number & 1), pos
        shift += 7
    return 0, -1

cdef inline (long long, Py_ssize_t) span(const unsigned char[::1] buf, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef long long size
    size, pos = zigzag(buf, pos, end)
    if pos < 0 or size > end - pos:
        return 0, -1
    if size < 0:
        return -1, pos
    return size, pos

cdef inline long long uint32_at(const unsigned char[::1] buf, Py_ssize_t pos) noexcept nogil:
    cdef long long number = buf[pos]
    return (number << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3]

cdef inline long long int64_at(const unsigned char[::1] buf, Py_ssize_t pos) noexcept nogil:
    return <long long>((<unsigned long long>uint32_at(buf, pos) << 32) | <unsigned long long>uint32_at(buf, pos + 4))

cdef inline long long wrapped(long long number) noexcept nogil:
    return number

cdef inline bint inside(long long at, long long size, long long data_bytes) noexcept nogil:
    return size <= 0 or (at >= 0 and size <= data_bytes - at)

cdef inline bint row_inside(
    const int[::1] spans,
    Py_ssize_t capacity,
    Py_ssize_t row,
    Py_ssize_t key_bytes,
    Py_ssize_t value_bytes,
    Py_ssize_t header_bytes,
) noexcept nogil:
    if not inside(spans[row], spans[capacity + row], key_bytes):
        return False
    if not inside(spans[2 * capacity + row], spans[3 * capacity + row], value_bytes):
        return False
    return inside(spans[4 * capacity + row], spans[5 * capacity + row], header_bytes)

cdef inline void copy(
    unsigned char[::1] out, Py_ssize_t pos, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size
) noexcept nogil:
    memcpy(&out[pos], &data[at], size)

# The contribution of each byte value to a CRC-32, for each of the eight positions in a word: 2048 numbers.
cdef inline void tabulate(unsigned int *remainders) noexcept nogil:
    cdef unsigned int number
    cdef int index, bit
    for index in range(256):
        number = index
        for bit in range(8):
            number = (number >> 1) ^ (0xEDB88320U if number & 1 else 0)
        remainders[index] = number
    for index in range(256, 2048):
        number = remainders[index - 256]
        remainders[index] = (number >> 8) ^ remainders[number & 0xFF]

# Returns the CRC-32 of a range inside the buffer.
cdef inline unsigned int crc32_of(
    const unsigned int *remainders, const unsigned char[::1] buf, Py_ssize_t pos, Py_ssize_t end
) noexcept nogil:
    cdef unsigned int crc = 0xFFFFFFFFU
    cdef unsigned int low, high
    while end - pos >= 8:
        low = crc ^ (buf[pos] | (buf[pos + 1] << 8) | (buf[pos + 2] << 16) | (<unsigned int>buf[pos + 3] << 24))
        high = buf[pos + 4] | (buf[pos + 5] << 8) | (buf[pos + 6] << 16) | (<unsigned int>buf[pos + 7] << 24)
        crc = remainders[1792 + (low & 0xFF)] ^ remainders[1536 + (low >> 8 & 0xFF)] ^ remainders[1280 + (low >> 16 & 0xFF)]
        crc ^= remainders[1024 + (low >> 24)] ^ remainders[768 + (high & 0xFF)] ^ remainders[512 + (high >> 8 & 0xFF)]
        crc ^= remainders[256 + (high >> 16 & 0xFF)] ^ remainders[high >> 24]
        pos += 8
    while pos < end:
        crc = (crc >> 8) ^ remainders[(crc ^ buf[pos]) & 0xFF]
        pos += 1
    return ~crc

cdef inline Py_ssize_t zigzag_bytes(long long number) noexcept nogil:
    cdef unsigned long long rest = <unsigned long long>(number << 1) ^ <unsigned long long>(number >> 63)
    cdef Py_ssize_t size = 1
    if rest < 0x80:
        return 1
    if rest < 0x4000:
        return 2
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size

cdef inline Py_ssize_t put(unsigned char *out, Py_ssize_t pos, long long number) noexcept nogil:
    cdef unsigned long long rest = <unsigned long long>(number << 1) ^ <unsigned long long>(number >> 63)
    if rest < 0x80:
        out[pos] = <unsigned char>rest
        return pos + 1
    if rest < 0x4000:
        out[pos] = <unsigned char>((rest & 0x7F) | 0x80)
        out[pos + 1] = <unsigned char>(rest >> 7)
        return pos + 2
    while rest >= 0x80:
        out[pos] = <unsigned char>((rest & 0x7F) | 0x80)
        rest >>= 7
        pos += 1
    out[pos] = <unsigned char>rest
    return pos + 1

cdef inline long long body_bytes(
    long long age, long long delta, long long key_size, long long value_size, long long header_size
) noexcept nogil:
    cdef long long body = 1 + zigzag_bytes(age) + zigzag_bytes(delta) + (header_size if header_size > 0 else 1)
    body += zigzag_bytes(key_size) + (key_size if key_size > 0 else 0)
    return body + zigzag_bytes(value_size) + (value_size if value_size > 0 else 0)

cdef inline unsigned int murmur2_of(const unsigned char *data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t pos = at
    cdef Py_ssize_t end = at + size - (size & 3)
    cdef unsigned int block
    cdef unsigned int hashed = 0x9747B28CU ^ <unsigned int>size
    while pos < end:
        block = data[pos] | (data[pos + 1] << 8) | (data[pos + 2] << 16) | (<unsigned int>data[pos + 3] << 24)
        block *= 0x5BD1E995U
        hashed = (hashed * 0x5BD1E995U) ^ ((block ^ (block >> 24)) * 0x5BD1E995U)
        pos += 4
    if (size & 3) == 3:
        hashed ^= <unsigned int>data[pos + 2] << 16
    if (size & 3) >= 2:
        hashed ^= <unsigned int>data[pos + 1] << 8
    if (size & 3) >= 1:
        hashed = (hashed ^ data[pos]) * 0x5BD1E995U
    hashed = (hashed ^ (hashed >> 13)) * 0x5BD1E995U
    return hashed ^ (hashed >> 15)
