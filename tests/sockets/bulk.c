/* Cases: large transfers. */
#include "matrix.h"

static void send_all(int stream, const char *from, size_t count)
{
    while (count > 0) {
        ssize_t sent = write(stream, from, count);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            quit("write");
        from += sent;
        count -= sent;
    }
}

void one_sendfile(void)
{
    FILE *file = tmpfile();
    int from = fileno(file);
    fill(bytes, 200000, 9);
    if (write(from, bytes, 200000) != 200000)
        quit("no file");
    lseek(from, 1000, SEEK_SET);
    long sent = 0, now;
    while (sent < 99000 && (now = sendfile(fd, from, NULL, 99000 - sent)) > 0)
        sent += now;
    say("sent %ld, the file stands at %ld", sent, (long)lseek(from, 0, SEEK_CUR));
    off_t at = 100000;
    while (at < 200000 && sendfile(fd, from, &at, 200000) > 0)
        ;
    say("offset %ld, the file stands at %ld", (long)at, (long)lseek(from, 0, SEEK_CUR));
    DO(sendfile(fd, from, &at, 100));
    DO(sendfile(fd, -1, &at, 100));
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

void two_sendfile(void)
{
    GET(recv(fd, bytes, 199000, MSG_WAITALL));
    DO(read(fd, bytes, 10));
    allow_next();
}

/* Both directions at once, in pieces of all sizes. */
static void flood(unsigned own, unsigned theirs, long total)
{
    unsigned sizes = own * 7 + 1;
    long sent = 0, come = 0;
    unsigned long all = 0, wanted = 0;
    static char out[70000], in[70000];
    unsigned char next_out = own, next_in = theirs;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (sent < total || come < total) {
        struct pollfd one = { fd, (short)((sent < total ? POLLOUT : 0) | (come < total ? POLLIN
            : 0)), 0 };
        if (poll(&one, 1, 30000) <= 0)
            quit("the flood stands still");
        if (one.revents & POLLOUT) {
            sizes = sizes * 1103515245 + 12345;
            long size = 1 + (sizes >> 8) % sizeof out, left = total - sent;
            size = size < left ? size : left;
            for (long i = 0; i < size; i++)
                out[i] = (char)(next_out + i * 7);
            long now = write(fd, out, size);
            if (now < 0 && errno != EAGAIN)
                quit("flood write");
            if (now > 0) {
                sent += now;
                next_out += now * 7;
            }
        }
        if (one.revents & (POLLIN | POLLHUP)) {
            sizes = sizes * 1103515245 + 12345;
            long now = read(fd, in, 1 + (sizes >> 8) % sizeof in);
            if (now == 0 || (now < 0 && errno != EAGAIN))
                quit("flood read");
            for (long i = 0; i < now; i++) {
                all += (unsigned char)in[i];
                wanted += (unsigned char)(next_in + i * 7);
                if ((unsigned char)in[i] != (unsigned char)(next_in + i * 7)) {
                    say("byte %ld is not what was sent", come + i);
                    exit(4);
                }
            }
            if (now > 0) {
                come += now;
                next_in += now * 7;
            }
        }
    }
    say("%ld bytes each way, %s", total, all == wanted ? "as sent" : "other than sent");
}

void one_flood(void)
{
    flood(1, 2, 6 << 20);
    allow_next();
    await_next();
}

void two_flood(void)
{
    flood(2, 1, 6 << 20);
    allow_next();
    await_next();
}

/* The sender writes many bytes before the receiver reads the first. */
void one_ahead(void)
{
    fill(bytes, 100000, 10);
    send_all(fd, bytes, 100000);
    say("written");
    allow_next();
    await_next();
    GET(recv(fd, bytes, 100000, MSG_WAITALL));
}

void two_ahead(void)
{
    fill(bytes, 100000, 11);
    send_all(fd, bytes, 100000);
    say("written");
    allow_next();
    await_next();
    GET(recv(fd, bytes, 100000, MSG_WAITALL));
}

void one_blocking_bulk(void)
{
    for (int i = 0; i < 40; i++) {
        fill(bytes, 150000, i);
        send_all(fd, bytes, 150000);
    }
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

void two_blocking_bulk(void)
{
    unsigned long all = 0;
    long count, total = 0;
    while ((count = read(fd, bytes, 33333)) > 0) {
        for (long i = 0; i < count; i++)
            all = all * 33 + (unsigned char)bytes[i];
        total += count;
    }
    say("%ld bytes, sum %lx, then %ld", total, all, count);
    allow_next();
}
