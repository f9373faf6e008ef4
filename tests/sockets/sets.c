/* The side that obeys, and the functions of the side that watches. */
#include "sets.h"

int ends[ENDS];
struct epoll_event list[64];
struct sockaddr_storage there;
socklen_t there_length;

struct order {
    char what;
    int stream, value, thread;
    char text[512];
    struct sockaddr_storage at;
    socklen_t length;
};
struct outcome { long value; int code; unsigned long sum; };

void watch(int set, int what, int stream, unsigned wanted, unsigned mark)
{
    struct epoll_event event = { .events = wanted, .data.u64 = mark };
    result(what == EPOLL_CTL_ADD ? "add" : what == EPOLL_CTL_MOD ? "modify" : "remove",
           epoll_ctl(set, what, stream, &event));
}

static int by_mark(const void *one, const void *two)
{
    const struct epoll_event *a = one, *b = two;
    return a->data.u64 < b->data.u64 ? -1 : a->data.u64 > b->data.u64;
}

void found(const char *what, int count, struct epoll_event *in)
{
    if (count > 0)
        qsort(in, count, sizeof *in, by_mark);
    events(what, count, in);
}

void until_mask(int set, unsigned wanted)
{
    struct epoll_event one = { 0 };
    for (int turn = 0; turn < 20000 && (one.events & wanted) != wanted; turn++) {
        int count = epoll_wait(set, &one, 1, 30000);
        if (count < 1)
            quit("the mask never came");
        if ((one.events & wanted) != wanted)
            usleep(1000);
    }
    say("mask %#x, data %lx", one.events, (long)one.data.u64);
}

int idle_set(unsigned wanted)
{
    int set = epoll_create1(0);
    ends[0] = fd;
    watch(set, EPOLL_CTL_ADD, fd, wanted, 1);
    for (int i = 0; i < 3; i++) {
        far_write(0, "light");
        WAIT(set, 30000);
        until_bytes(fd, 5);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
    }
    return set;
}

/* Without this a small write would wait for the answer to the last. */
static void hurry(int stream)
{
    int yes = 1;
    if (!is_unix)
        setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static struct outcome obey(const struct order *order)
{
    long value = 0;
    unsigned long all = 0;
    int stream = ends[order->stream];
    switch (order->what) {
    case 'w':
        value = write(stream, order->text, order->value);
        break;
    case 'c':
        value = close(stream);
        break;
    case 's':
        value = shutdown(stream, SHUT_WR);
        break;
    case 'r':
        value = recv(stream, bytes, order->value, 0);
        all = value > 0 ? sum(bytes, value) : 0;
        break;
    case 'm':
        for (int i = 1; i <= order->value; i++)
            hurry(ends[i] = connected(&order->at, order->length));
        for (int i = 1; i <= order->value; i++)
            warm(ends[i], 1);
        break;
    case 'a':
        there = order->at;
        there_length = order->length;
        break;
    }
    return (struct outcome){ value, errno, all };
}

static void servant(void)
{
    struct order order;
    long count;
    ends[0] = fd;
    hurry(fd);
    while ((count = read(from_other[0], &order, sizeof order)) == sizeof order) {
        struct outcome outcome = { 0, 0, 0 };
        /* An order for later is acknowledged at once. */
        if (order.what != 'l')
            outcome = order.what == 'p' ? outcome : obey(&order);
        if (write(to_other[1], &outcome, sizeof outcome) != sizeof outcome)
            quit("nobody is there to be answered");
        if (order.what == 'p') {
            outcome.value = parts[order.stream](order.value);
            if (write(to_other[1], &outcome, sizeof outcome) != sizeof outcome)
                quit("nobody is there to be answered");
        } else if (order.what == 'l') {
            until_asleep(order.thread);
            if (write(ends[order.stream], order.text, order.value) != order.value)
                quit("cannot write later");
        }
    }
}

void one_servant(void)
{
    servant();
}

void two_servant(void)
{
    servant();
}

static struct outcome answer(void)
{
    struct outcome outcome;
    if (read(from_other[0], &outcome, sizeof outcome) != sizeof outcome)
        quit("the other side has ended");
    return outcome;
}

static struct outcome say_so(const struct order *order)
{
    if (write(to_other[1], order, sizeof *order) != sizeof *order)
        quit("the other side is not there");
    return answer();
}

static struct order order_of(char what, int stream, const char *text, int value)
{
    struct order order = { .what = what, .stream = stream, .value = text ? (int)strlen(text)
        : value };
    if (text)
        memcpy(order.text, text, strlen(text));
    return order;
}

void far_write(int stream, const char *text)
{
    struct order order = order_of('w', stream, text, 0);
    if (say_so(&order).value != order.value)
        quit("the other side cannot write");
}

void far_write_here(int stream, const char *text)
{
    int before = 0;
    if (ioctl(ends[stream], FIONREAD, &before) != 0)
        quit("FIONREAD");
    far_write(stream, text);
    until_bytes(ends[stream], before + (int)strlen(text));
}

void far_later(int thread, int stream, const char *text)
{
    struct order order = order_of('l', stream, text, 0);
    order.thread = thread;
    say_so(&order);
}

void far_close(int stream)
{
    struct order order = order_of('c', stream, NULL, 0);
    say_so(&order);
}

void far_shutdown(int stream)
{
    struct order order = order_of('s', stream, NULL, 0);
    say_so(&order);
}

void far_read(int stream, int count)
{
    struct order order = order_of('r', stream, NULL, count);
    struct outcome outcome = say_so(&order);
    if (outcome.value < 0)
        say("the other side reads: %s", strerrorname_np(outcome.code));
    else
        say("the other side reads: %ld, sum %lx", outcome.value, outcome.sum);
}

void far_part(int which, int value)
{
    struct order order = order_of('p', which, NULL, value);
    say_so(&order);
}

long far_ended(void)
{
    return answer().value;
}

void far_address(const struct sockaddr_storage *at, socklen_t length)
{
    struct order order = order_of('a', 0, NULL, 0);
    order.at = *at;
    order.length = length;
    say_so(&order);
}

void mesh(int count)
{
    struct order order = order_of('m', 0, NULL, count);
    ends[0] = fd;
    int listening = listener(&order.at, &order.length, count);
    if (write(to_other[1], &order, sizeof order) != sizeof order)
        quit("the other side is not there");
    for (int i = 1; i <= count; i++)
        if ((ends[i] = accept(listening, NULL, NULL)) < 0)
            quit("cannot accept");
    close(listening);
    for (int i = 1; i <= count; i++)
        warm(ends[i], 0);
    answer();
}

void until_asleep(int thread)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/%d/stat", thread);
    for (int turn = 0, seen = 0; turn < 20000 && seen < 2; turn++) {
        FILE *from = fopen(name, "r");
        const char *after = from && fgets(line, sizeof line, from) ? strrchr(line, ')') : NULL;
        if (from)
            fclose(from);
        if (!after)
            return;
        seen = after[2] == 'S' ? seen + 1 : 0;
        usleep(200);
    }
}

static void *body(void *which)
{
    struct sleeper *self = which;
    __atomic_store_n(&self->number, gettid(), __ATOMIC_SEQ_CST);
    self->value = self->act(self);
    return NULL;
}

void begin(struct sleeper *one, int stream, long (*act)(struct sleeper *self))
{
    memset(one, 0, sizeof *one);
    one->stream = stream;
    one->act = act;
    if (pthread_create(&one->thread, NULL, body, one) != 0)
        quit("no thread");
    while (__atomic_load_n(&one->number, __ATOMIC_SEQ_CST) == 0)
        usleep(200);
    until_asleep(one->number);
}

void finish(struct sleeper *one, const char *what)
{
    void *end;
    pthread_join(one->thread, &end);
    if (end == PTHREAD_CANCELED)
        say("%s: cancelled", what);
    else if (one->act == act_wait)
        found(what, (int)one->value, one->list);
    else
        say("%s: %ld", what, one->value);
}

long act_wait(struct sleeper *self)
{
    return epoll_wait(self->stream, self->list, 8, 30000);
}

long act_poll(struct sleeper *self)
{
    struct pollfd one = { self->stream, POLLIN, 0 };
    int count = poll(&one, 1, 30000);
    return count * 100 + one.revents;
}

long act_select(struct sleeper *self)
{
    struct timeval time = { 30, 0 };
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(self->stream, &reads);
    return select(self->stream + 1, &reads, NULL, NULL, &time);
}

long act_read(struct sleeper *self)
{
    char word[64];
    return read(self->stream, word, sizeof word);
}

long act_peek(struct sleeper *self)
{
    char word[64];
    return recv(self->stream, word, sizeof word, MSG_PEEK);
}

pid_t ended(pid_t child)
{
    int outcome = 0;
    if (child == 0)
        _exit(0);
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        ;
    say("a child ended with %#x", outcome);
    return -1;
}

int waited(int set, struct epoll_event *in, int room)
{
    int count;
    while ((count = epoll_wait(set, in, room, 30000)) < 0 && errno == EINTR)
        ;
    return count;
}

long whole(int stream, char *to, long count)
{
    long all = 0;
    while (all < count) {
        long now = recv(stream, to + all, count - all, MSG_WAITALL);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return all > 0 ? all : now;
        all += now;
    }
    return all;
}

void leave_out(const char *why)
{
    fprintf(stderr, "%s\n", why);
    if (other > 0)
        kill(other, SIGKILL);
    _exit(77);
}
