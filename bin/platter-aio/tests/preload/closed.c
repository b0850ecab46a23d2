/* Closes all descriptors, those of the library too, and uses their numbers for files of its own. Ends with the number of the
   line that found a difference. */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) _exit(__LINE__ & 255 ? __LINE__ & 255 : 255); } while (0)
#define MOST 64

static void finish(struct aiocb *block, ssize_t expected)
{
    const struct aiocb *list[1] = {block};
    while (aio_error(block) == EINPROGRESS)
        CHECK(aio_suspend(list, 1, NULL) == 0 || errno == EINTR);
    CHECK(aio_error(block) == 0 && aio_return(block) == expected);
}

static void start(struct aiocb *block, int fd, void *memory, size_t length)
{
    memset(block, 0, sizeof *block);
    block->aio_fildes = fd;
    block->aio_buf = memory;
    block->aio_nbytes = length;
    block->aio_sigevent.sigev_notify = SIGEV_NONE;
}

int main(int argc, char **argv)
{
    static char out[4096], in[4096];
    struct aiocb block, waiting;
    const struct aiocb *list[1] = {&waiting};
    int ends[2];
    memset(out, 'x', sizeof out);
    CHECK(argc == 2);
    for (int round = 0; round < 3; round++) {
        int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0);
        start(&block, fd, out, sizeof out);
        CHECK(aio_write(&block) == 0);
        finish(&block, sizeof out);
        /* In progress when its descriptor is closed, and the end of the pipe with it. */
        CHECK(pipe(ends) == 0);
        start(&waiting, ends[0], in, sizeof in);
        CHECK(aio_read(&waiting) == 0);
        for (int number = 3; number < 1024; number++)
            close(number);
        /* Files, pipes, counters and sockets in the place of what the library had. */
        for (int number = 3; number < MOST; number += 3) {
            CHECK(open(argv[1], O_RDWR | O_TRUNC) == number);
            CHECK(eventfd(0, EFD_NONBLOCK) == number + 1);
            CHECK(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0) == number + 2);
        }
        start(&block, 3, out, 1000);
        block.aio_offset = 5000;
        CHECK(aio_write(&block) == 0);
        finish(&block, 1000);
        CHECK(aio_fsync(O_SYNC, &block) == 0);
        finish(&block, 0);
        CHECK(aio_cancel(3, &block) == AIO_ALLDONE);
        /* It ends. How is the program's own doing: a thread that begins late reads what has the number by then. */
        while (aio_error(&waiting) == EINPROGRESS)
            CHECK(aio_suspend(list, 1, NULL) == 0 || errno == EINTR);
        struct stat stat;
        for (int number = 3; number < MOST; number += 3) {
            char byte;
            unsigned long long count;
            CHECK(fstat(number, &stat) == 0 && stat.st_size == 6000 && lseek(number, 0, SEEK_CUR) == 0);
            CHECK(pread(number, &byte, 1, 0) == 1 && byte == 0);
            CHECK(read(number + 1, &count, sizeof count) == -1 && errno == EAGAIN);
            CHECK(recv(number + 2, &byte, 1, 0) == -1 && errno == EAGAIN);
        }
        for (int number = 3; number < MOST; number++)
            CHECK(close(number) == 0);
    }
    return 0;
}
