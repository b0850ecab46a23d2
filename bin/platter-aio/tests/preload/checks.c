/* Calls every function of <aio.h> as a C program does; ends with the number of the line that found a difference. */
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) _exit(__LINE__ & 255 ? __LINE__ & 255 : 255); } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int called;

/* Whether the main thread has opened a ring. The kernel interrupts a thread some time after it has closed one, and its calls,
   such as sigwaitinfo below, fail with EINTR. */
static volatile int opened;

/* The library makes its calls by this function. */
long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_io_uring_setup && gettid() == getpid())
        opened = 1;
    if (next == NULL)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void notified(union sigval value)
{
    pthread_mutex_lock(&lock);
    called = value.sival_int;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void finish(struct aiocb *block, ssize_t expected)
{
    const struct aiocb *list[1] = {block};
    while (aio_error(block) == EINPROGRESS)
        CHECK(aio_suspend(list, 1, NULL) == 0 || errno == EINTR);
    CHECK(aio_error(block) == 0 && aio_return(block) == expected);
}

int main(int argc, char **argv)
{
    static char out[4096], in[4096];
    struct aiocb block, other;
    struct aiocb *list[2] = {&block, &other};
    sigset_t set;
    siginfo_t info;
    CHECK(argc == 2);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    memset(out, 'x', sizeof out);

    /* A signal that is waited for. */
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    memset(&block, 0, sizeof block);
    block.aio_fildes = fd;
    block.aio_buf = out;
    block.aio_nbytes = sizeof out;
    block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    block.aio_sigevent.sigev_signo = SIGRTMIN;
    block.aio_sigevent.sigev_value.sival_int = 42;
    CHECK(aio_write(&block) == 0);
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
    CHECK(info.si_code == SI_ASYNCIO && info.si_value.sival_int == 42 && info.si_pid == getpid());
    finish(&block, sizeof out);

    /* A function on a thread. */
    block.aio_offset = sizeof out;
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = notified;
    block.aio_sigevent.sigev_notify_attributes = NULL;
    block.aio_sigevent.sigev_value.sival_int = 7;
    CHECK(aio_write(&block) == 0);
    pthread_mutex_lock(&lock);
    while (called != 7)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    finish(&block, sizeof out);

    /* A list, a sync, a read. */
    block.aio_sigevent.sigev_notify = SIGEV_NONE;
    block.aio_lio_opcode = LIO_WRITE;
    other = block;
    other.aio_offset = 0;
    CHECK(lio_listio(LIO_WAIT, list, 2, NULL) == 0);
    CHECK(aio_return(&block) == sizeof out && aio_return(&other) == sizeof out);
    CHECK(aio_fsync(O_DSYNC, &block) == 0);
    finish(&block, 0);
    CHECK(aio_cancel(fd, &block) == AIO_ALLDONE && aio_cancel(fd, NULL) == AIO_ALLDONE);
    other.aio_buf = in;
    CHECK(aio_read64((struct aiocb64 *)&other) == 0);
    finish(&other, sizeof in);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK(close(fd) == 0);
    CHECK(!opened);
    return 0;
}
