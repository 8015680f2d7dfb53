# The number of a file's names. A stat that reads times makes Linux store a new time with the next write into the file: statx reads none.

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/stat.h>

    static long long ottla_count_links(int handle) {
        struct stat found;
    #if defined(__linux__) && defined(STATX_NLINK)
        struct statx links;
        if (statx(handle, "", AT_EMPTY_PATH, STATX_NLINK, &links) == 0 && (links.stx_mask & STATX_NLINK) != 0)
            return links.stx_nlink;
    #endif
        return fstat(handle, &found) == 0 ? (long long) found.st_nlink : -errno;
    }
    """
    long long ottla_count_links(int handle) nogil
