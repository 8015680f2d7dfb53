# The two system calls for the slice of a thread, which neither Python nor libc wraps.

cdef extern from *:
    """
    #if defined(__linux__)
    #include <errno.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #endif

    static long long ottla_request_slice(unsigned long long slice_ns) {
    #if defined(__linux__) && defined(SYS_sched_setattr) && defined(SYS_sched_getattr)
        struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } found;
        memset(&found, 0, sizeof found);
        if (syscall(SYS_sched_getattr, 0, &found, sizeof found, 0) != 0 || found.policy != 0)
            return 0;
        found.size = sizeof found;
        found.runtime = slice_ns;
        found.deadline = found.period = 0;
        if (syscall(SYS_sched_setattr, 0, &found, 0) != 0)
            return 0;
        memset(&found, 0, sizeof found);
        return syscall(SYS_sched_getattr, 0, &found, sizeof found, 0) != 0 ? 0 : (long long) found.runtime;
    #else
        return slice_ns && 0;
    #endif
    }
    """
    long long ottla_request_slice(unsigned long long slice_ns) nogil
