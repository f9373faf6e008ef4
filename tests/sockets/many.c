/* Cases: many connections, many bytes, with epoll on both sides. */
#include "sets.h"
#include <sys/eventfd.h>

enum { WORD = 24, ROUNDS = 60, CONNECTIONS = 50 };

/* One message of one connection; its bytes name both. */
static void word_of(char *to, int stream, int number)
{
    fill(to, WORD, stream * 1000 + number);
}

/* Sends requests on each connection, `window` requests ahead of the answers. */
static long ask(int window)
{
    static int sent[ENDS], come[ENDS];
    char word[WORD], wanted[WORD];
    int set = epoll_create1(0), left = CONNECTIONS * ROUNDS;
    for (int i = 1; i <= CONNECTIONS; i++) {
        struct epoll_event one = { .events = EPOLLIN, .data.u32 = i };
        epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &one);
        for (sent[i] = come[i] = 0; sent[i] < window; sent[i]++) {
            word_of(word, i, sent[i]);
            if (write(ends[i], word, WORD) != WORD)
                quit("cannot ask");
        }
    }
    while (left > 0) {
        struct epoll_event some[16];
        int count = waited(set, some, 16);
        if (count < 1)
            quit("an answer never came");
        for (int at = 0; at < count; at++) {
            int i = some[at].data.u32;
            if (whole(ends[i], word, WORD) != WORD)
                quit("no whole answer");
            word_of(wanted, i, come[i]++);
            if (memcmp(word, wanted, WORD) != 0)
                quit("another answer than was asked for");
            left--;
            if (sent[i] < ROUNDS) {
                word_of(word, i, sent[i]++);
                if (write(ends[i], word, WORD) != WORD)
                    quit("cannot ask");
            }
        }
    }
    close(set);
    return 0;
}

static long bulk(int unused), churn(int unused), asleep(int with_bytes), some(int seed);
long (*const parts[])(int) = { ask, bulk, churn, asleep, some, drain, pour, ping, hostile,
    send_in_order, clears };

static int answers_left;

/* Receives what is there and sends it back; with `edge` until a receive would block. */
static void reply(int stream, int edge)
{
    char piece[WORD * 4];
    long count;
    do {
        count = recv(stream, piece, sizeof piece, MSG_DONTWAIT);
        if (count > 0 && write(stream, piece, count) != count)
            quit("cannot answer");
        if (count > 0)
            __atomic_fetch_sub(&answers_left, count, __ATOMIC_SEQ_CST);
        if (count == 0)
            quit("the other side has closed");
    } while (edge && count > 0);
}

static void serve_all(unsigned how)
{
    int set = epoll_create1(0);
    for (int i = 1; i <= CONNECTIONS; i++) {
        struct epoll_event one = { .events = how, .data.u32 = i };
        epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &one);
    }
    while (__atomic_load_n(&answers_left, __ATOMIC_SEQ_CST) > 0) {
        struct epoll_event some[7];
        int count = waited(set, some, 7);
        if (count < 1)
            quit("a request never came");
        for (int at = 0; at < count; at++)
            reply(ends[some[at].data.u32], !!(how & EPOLLET));
    }
    close(set);
}

static void serve_and_check(unsigned how, int window)
{
    answers_left = CONNECTIONS * ROUNDS * WORD;
    far_part(PART_ASK, window);
    serve_all(how);
    far_ended();
    say("all asked, all answered");
}

void two_many_level(void)
{
    mesh(CONNECTIONS);
    serve_and_check(EPOLLIN, 1);
    serve_and_check(EPOLLIN, 2);
}

void two_many_edge(void)
{
    mesh(CONNECTIONS);
    serve_and_check(EPOLLIN | EPOLLET, 1);
    serve_and_check(EPOLLIN | EPOLLET | EPOLLOUT | EPOLLRDHUP, 2);
}

/* Both sides are stopped and continued at random moments. */
void two_many_delayed(void)
{
    mesh(CONNECTIONS);
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        unsigned next = seed_of(0);
        for (int i = 0; i < 60; i++) {
            next = next * 1103515245 + 12345;
            pid_t chosen = (next >> 16) & 1 ? self : other;
            kill(chosen, SIGSTOP);
            usleep((next >> 8) % 2500);
            kill(chosen, SIGCONT);
            usleep((next >> 4) % 500);
        }
        _exit(0);
    }
    for (int turn = 0; turn < 2; turn++)
        serve_and_check(turn ? EPOLLIN | EPOLLET : EPOLLIN, 1 + turn);
    ended(child);
}

/* Several threads wait in one set; one of them at a time serves a socket. */
static int once_set, once_gate;

static void *once(void *unused)
{
    (void)unused;
    for (;;) {
        struct epoll_event one;
        int count = waited(once_set, &one, 1);
        if (count != 1)
            quit("a request never came");
        if (one.data.u32 == 0)
            return NULL;
        reply(ends[one.data.u32], 1);
        one.events = EPOLLIN | EPOLLONESHOT;
        if (epoll_ctl(once_set, EPOLL_CTL_MOD, ends[one.data.u32], &one) != 0)
            quit("cannot arm");
        if (__atomic_load_n(&answers_left, __ATOMIC_SEQ_CST) == 0)
            eventfd_write(once_gate, 1);
    }
}

void two_many_oneshot(void)
{
    mesh(CONNECTIONS);
    pthread_t all[3];
    once_set = epoll_create1(0);
    answers_left = CONNECTIONS * ROUNDS * WORD;
    once_gate = eventfd(0, 0);
    struct epoll_event end = { .events = EPOLLIN, .data.u32 = 0 };
    epoll_ctl(once_set, EPOLL_CTL_ADD, once_gate, &end);
    for (int i = 1; i <= CONNECTIONS; i++) {
        struct epoll_event one = { .events = EPOLLIN | EPOLLONESHOT, .data.u32 = i };
        epoll_ctl(once_set, EPOLL_CTL_ADD, ends[i], &one);
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, once, NULL);
    far_part(PART_ASK, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
    far_ended();
    say("all asked, all answered");
}

/* Many watched sockets, few with bytes. */
enum { MANY = 200, CHOSEN = 25 };

static long some(int seed)
{
    unsigned next = seed;
    for (int i = 0; i < CHOSEN; i++) {
        next = next * 1103515245 + 12345;
        if (write(ends[1 + (next >> 8) % MANY], "eight by", 8) != 8)
            quit("cannot write");
    }
    return 0;
}

void two_many_sockets(void)
{
    mesh(MANY);
    for (int how = 0; how < 2; how++) {
        int set = epoll_create1(0);
        for (int i = 1; i <= MANY; i++) {
            struct epoll_event one = { .events = how ? EPOLLIN | EPOLLET : EPOLLIN, .data.u32 = i };
            epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &one);
        }
        for (int seed = 1; seed <= 20; seed++) {
            int wanted[MANY + 1] = { 0 }, left = CHOSEN * 8, wrong = 0;
            unsigned next = seed;
            for (int i = 0; i < CHOSEN; i++) {
                next = next * 1103515245 + 12345;
                wanted[1 + (next >> 8) % MANY] += 8;
            }
            far_part(PART_SOME, seed);
            /* Every second time all bytes are there before the first wait. */
            if (seed & 1)
                far_ended();
            while (left > 0) {
                int count = epoll_wait(set, list, 7, 30000);
                if (count < 1)
                    quit("an event never came");
                for (int at = 0; at < count; at++) {
                    int i = list[at].data.u32;
                    long now = recv(ends[i], bytes, 100, MSG_DONTWAIT);
                    if (now < 0 && errno == EAGAIN)
                        continue;
                    wanted[i] -= now;
                    left -= now;
                }
            }
            if (!(seed & 1))
                far_ended();
            for (int i = 1; i <= MANY; i++)
                wrong += wanted[i] != 0;
            say("seed %d: wrong %d", seed, wrong);
            if (seed & 1)
                WAIT(set, 0);
        }
        close(set);
    }
}

/* Both directions at once, each until it would block, as edges demand. */
static long bulk(int seed)
{
    enum { TOTAL = 3 << 20 };
    static char out[30000], in[30000];
    int set = epoll_create1(0), ready = EPOLLIN | EPOLLOUT;
    long sent = 0, come = 0;
    unsigned sizes = seed;
    struct epoll_event one = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = 1 };
    fcntl(fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &one);
    while (sent < TOTAL || come < TOTAL) {
        int useful = (sent < TOTAL ? ready & EPOLLOUT : 0) | (come < TOTAL ? ready & EPOLLIN : 0);
        int count = epoll_wait(set, &one, 1, useful ? 0 : 30000);
        if (count == 0 && !useful)
            quit("the stream stands still");
        ready |= count > 0 ? (int)one.events : 0;
        sizes = sizes * 1103515245 + 12345;
        if ((ready & EPOLLOUT) && sent < TOTAL) {
            long size = 1 + (sizes >> 8) % sizeof out, now;
            size = size < TOTAL - sent ? size : TOTAL - sent;
            for (long i = 0; i < size; i++)
                out[i] = (char)((sent + i) % 251);
            now = write(fd, out, size);
            if (now < 0 && errno != EAGAIN)
                quit("write");
            if (now < 0)
                ready &= ~EPOLLOUT;
            sent += now > 0 ? now : 0;
        }
        if ((ready & EPOLLIN) && come < TOTAL) {
            long now = read(fd, in, 1 + (sizes >> 16) % sizeof in);
            if (now == 0 || (now < 0 && errno != EAGAIN))
                quit("read");
            if (now < 0)
                ready &= ~EPOLLIN;
            for (long i = 0; i < now; i++)
                if ((unsigned char)in[i] != (unsigned char)((come + i) % 251))
                    quit("a byte is not what was sent");
            come += now > 0 ? now : 0;
        }
    }
    fcntl(fd, F_SETFL, 0);
    close(set);
    return 0;
}

void two_many_bulk(void)
{
    far_part(PART_BULK, 1);
    bulk(2);
    far_ended();
    say("all bytes came both ways");
}

/* Connections begin and end while a set watches them and their listener. */
enum { COMERS = 60 };

static long churn(int unused)
{
    (void)unused;
    char word[8];
    for (int i = 0; i < COMERS; i++) {
        int stream = connected(&there, there_length), set = epoll_create1(0);
        struct epoll_event one = { .events = EPOLLIN };
        epoll_ctl(set, EPOLL_CTL_ADD, stream, &one);
        for (int turn = 0; turn < 6; turn++)
            if (write(stream, "request", 7) != 7 || epoll_wait(set, &one, 1, 30000) != 1 ||
                recv(stream, word, 7, MSG_WAITALL) != 7 || memcmp(word, "request", 7) != 0)
                quit("no answer to a comer");
        close(i & 1 ? set : stream);
        close(i & 1 ? stream : set);
    }
    return 0;
}

void two_many_churn(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int listening = listener(&at, &length, 8), set = epoll_create1(0), gone = 0;
    long all = 0;
    struct epoll_event one = { .events = EPOLLIN, .data.u32 = listening };
    epoll_ctl(set, EPOLL_CTL_ADD, listening, &one);
    far_address(&at, length);
    far_part(PART_CHURN, 0);
    while (gone < COMERS) {
        int count = epoll_wait(set, list, 8, 30000);
        if (count < 1)
            quit("nobody came");
        for (int at = 0; at < count; at++) {
            int stream = list[at].data.u32;
            if (stream == listening) {
                stream = accept(listening, NULL, NULL);
                one = (struct epoll_event){ .events = EPOLLIN, .data.u32 = stream };
                epoll_ctl(set, EPOLL_CTL_ADD, stream, &one);
                continue;
            }
            long now = recv(stream, bytes, 100, MSG_DONTWAIT);
            if (now < 0 && errno == EAGAIN)
                continue;
            if (now <= 0) {
                gone++;
                close(stream);
            } else if (write(stream, bytes, now) != now) {
                quit("cannot answer a comer");
            } else {
                all += now;
            }
        }
    }
    far_ended();
    say("%d came and went, %ld bytes", gone, all);
}

/* Waits in a set until it is killed; `with_bytes` leaves reported bytes unread. */
static long asleep(int with_bytes)
{
    struct epoll_event one = { .events = EPOLLIN };
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &one);
    epoll_wait(set, &one, 1, with_bytes ? 30000 : 0);
    allow_next();
    for (;;)
        if (with_bytes)
            pause();
        else
            epoll_wait(set, &one, 1, 30000);
    return 0;
}
