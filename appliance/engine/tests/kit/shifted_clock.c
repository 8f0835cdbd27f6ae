/* A clock that a test moves: preloaded into a process, it adds two numbers of nanoseconds that are
   in a file, as signed 64-bit integers, to every reading of a clock by the C library: the first to
   the wall clock, the second to the clocks that only go forward. So Python, OpenSSL and what they
   start all see the same wrong time. The times of files stay as they are.

   Where the file has two numbers, waits end by these clocks too: a wait is cut into slices, so that
   anyone who waits sees within SLICE_NS that the time has gone by. A third number is added to the time
   since boot alone: for so long the machine has slept. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define SLICE_NS 20000000LL
/* A time of the wall clock in seconds is larger, one since boot is smaller. */
#define WALL_SECONDS 1000000000LL

static volatile const int64_t *shift_ns;
static int moves_waits;
static int (*real_cond)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem)(sem_t *, clockid_t, const struct timespec *);

/* When a program starts, and in a process that was forked to be one (kit.prepared_commands). */
__attribute__((constructor)) void find_shift(void)
{
    const char *path = getenv("SHIFTED_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat status;
    if (file < 0)
        return;
    real_cond = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_cond)
        real_cond = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_sem = dlsym(RTLD_NEXT, "sem_clockwait");
    moves_waits = !fstat(file, &status) && status.st_size == 2 * (off_t)sizeof(int64_t);
    void *place = mmap(NULL, 3 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (place != MAP_FAILED)
        shift_ns = place;
}

static int64_t shift_of(clockid_t clock)
{
    if (!shift_ns)
        return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return shift_ns[0];
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
        return moves_waits ? shift_ns[1] : 0;
    case CLOCK_BOOTTIME:
        return moves_waits ? shift_ns[1] : shift_ns[2];
    default:
        return 0;
    }
}

static int64_t total(const struct timespec *time)
{
    return (int64_t)time->tv_sec * SECOND_NS + time->tv_nsec;
}

static struct timespec parts(int64_t time_ns)
{
    struct timespec time = {time_ns / SECOND_NS, time_ns % SECOND_NS};
    return time;
}

static int64_t unshifted(clockid_t clock)
{
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return total(&now);
}

static int64_t shifted(clockid_t clock)
{
    return unshifted(clock) + shift_of(clock);
}

/* How long a wait may last before it checks the clock again. */
static int64_t slice(int64_t deadline_ns, clockid_t clock)
{
    int64_t left = deadline_ns - shifted(clock);
    return left <= 0 ? 0 : left < SLICE_NS ? left : SLICE_NS;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    int64_t shift = failed ? 0 : shift_of(clock);
    if (shift)
        *now = parts(total(now) + shift);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place)
        *place = exact.tv_sec;
    return exact.tv_sec;
}

static int poll_until(struct pollfd *files, nfds_t count, int64_t deadline_ns)
{
    for (;;) {
        int64_t left = slice(deadline_ns, CLOCK_MONOTONIC);
        struct timespec wait = parts(left);
        int found = (int)syscall(SYS_ppoll, files, count, &wait, NULL, _NSIG / 8);
        if (found || !left)
            return found;
    }
}

int poll(struct pollfd *files, nfds_t count, int milliseconds)
{
    if (moves_waits && milliseconds > 0)
        return poll_until(files, count, shifted(CLOCK_MONOTONIC) + milliseconds * 1000000LL);
    struct timespec wait = parts(milliseconds * 1000000LL);
    struct timespec *limit = milliseconds < 0 ? NULL : &wait;
    return (int)syscall(SYS_ppoll, files, count, limit, NULL, _NSIG / 8);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds)
{
    if (!moves_waits || milliseconds <= 0)
        return (int)syscall(SYS_epoll_pwait, epoll, events, most, milliseconds, NULL, _NSIG / 8);
    int64_t deadline_ns = shifted(CLOCK_MONOTONIC) + milliseconds * 1000000LL;
    for (;;) {
        int64_t left = slice(deadline_ns, CLOCK_MONOTONIC);
        int wait = (int)((left + 999999) / 1000000);
        int found = (int)syscall(SYS_epoll_pwait, epoll, events, most, wait, NULL, _NSIG / 8);
        if (found || !left)
            return found;
    }
}

int select(int count, fd_set *restrict reads, fd_set *restrict writes, fd_set *restrict others,
           struct timeval *restrict limit)
{
    int64_t deadline_ns = 0;
    if (limit)
        deadline_ns = shifted(CLOCK_MONOTONIC) + limit->tv_sec * SECOND_NS + limit->tv_usec * 1000;
    fd_set none, wanted[3];
    FD_ZERO(&none);
    wanted[0] = reads ? *reads : none;
    wanted[1] = writes ? *writes : none;
    wanted[2] = others ? *others : none;
    for (;;) {
        int64_t left = !limit ? SECOND_NS
                       : moves_waits ? slice(deadline_ns, CLOCK_MONOTONIC)
                                     : deadline_ns - shifted(CLOCK_MONOTONIC);
        struct timespec wait = parts(left < 0 ? 0 : left);
        if (reads)
            *reads = wanted[0];
        if (writes)
            *writes = wanted[1];
        if (others)
            *others = wanted[2];
        int found = (int)syscall(SYS_pselect6, count, reads, writes, others, &wait, NULL);
        if (found || (limit && left <= 0))
            return found;
    }
}

/* Conditions may wake for nothing, so a slice that is over is such a waking: anyone who waits checks
   what it waits for, and at the clock. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    if (!moves_waits)
        return real_cond(condition, mutex, until);
    clockid_t clock = until->tv_sec > WALL_SECONDS ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int64_t left = slice(total(until), clock);
    struct timespec limit = parts(unshifted(clock) + left);
    int failed = real_cond(condition, mutex, &limit);
    return failed == ETIMEDOUT && left ? 0 : failed;
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    if (!moves_waits)
        return real_sem(semaphore, clock, until);
    for (;;) {
        int64_t left = slice(total(until), clock);
        struct timespec limit = parts(unshifted(clock) + left);
        if (!real_sem(semaphore, clock, &limit))
            return 0;
        if (errno != ETIMEDOUT || !left)
            return -1;
    }
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                    struct timespec *rest)
{
    if (!moves_waits) {
        int failed = (int)syscall(SYS_clock_nanosleep, clock, flags, wanted, rest);
        return failed ? errno : 0;
    }
    int64_t deadline_ns = total(wanted) + (flags & TIMER_ABSTIME ? 0 : shifted(clock));
    for (;;) {
        int64_t left = slice(deadline_ns, clock);
        if (!left)
            return 0;
        struct timespec wait = parts(left);
        if (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &wait, NULL))
            return errno;
    }
}
