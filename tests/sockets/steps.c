/*
 * Cases: a kill at each step. A tracer leads a process through its calls, one instruction at a
 * time,
 * and kills it between two of them. The survivor gets the first bytes that were sent, then an end.
 */
#include "sets.h"
#include <glob.h>
#include <sys/ptrace.h>

enum { STEPS_MOST = 300000, PIECE = 90 };

static unsigned char pattern(long at)
{
    return (unsigned char)(at * 7 % 251);
}

static void piece_of(char *to, long at)
{
    for (int i = 0; i < PIECE; i++)
        to[i] = (char)pattern(at + i);
}

static int is_piece(const char *from, long at, long count)
{
    for (long i = 0; i < count; i++)
        if ((unsigned char)from[i] != pattern(at + i))
            return 0;
    return 1;
}

static int is_end(long value)
{
    return value == 0 || (value < 0 && (errno == ECONNRESET || errno == EPIPE));
}

/* The survivors. 1: all bytes were right, and an end came. */
long drain(int which)
{
    char in[200];
    long come = 0, now;
    while ((now = read(ends[which], in, sizeof in)) > 0) {
        if (!is_piece(in, come, now))
            return 2;
        come += now;
    }
    now = is_end(now) ? 1 : 3;
    close(ends[which]);
    return now;
}

long pour(int which)
{
    char out[PIECE];
    long sent = 0, now;
    do {
        piece_of(out, sent);
        now = write(ends[which], out, sizeof out);
        sent += now;
    } while (now > 0);
    now = is_end(now) ? 1 : 3;
    close(ends[which]);
    return now;
}

long ping(int which)
{
    int stream = ends[which], set = epoll_create1(0);
    struct epoll_event one = { .events = EPOLLIN };
    char out[PIECE], in[PIECE];
    long at = 0, come = PIECE, now = 1;
    epoll_ctl(set, EPOLL_CTL_ADD, stream, &one);
    while (now > 0) {
        if (come == PIECE) {
            piece_of(out, at);
            come = 0;
            now = write(stream, out, PIECE);
        } else {
            now = waited(set, &one, 1) == 1 ? recv(stream, in + come, PIECE - come, 0) : -1;
            come += now > 0 ? now : 0;
            if (come == PIECE && !is_piece(in, at, PIECE))
                return 2;
            at += come == PIECE ? PIECE : 0;
        }
    }
    now = is_end(now) ? 1 : 3;
    close(set);
    close(stream);
    return now;
}

/* The victims. Each is called for the part before the steps, and for the part with steps. */
static void sends(int stream, int count)
{
    static char out[PIECE * 7];
    static long sent;
    if (sent == 0)
        for (int i = 0; i < 7; i++)
            piece_of(out + i * PIECE, i * PIECE);
    for (int i = 0; i < count; i++)
        sent += write(stream, out + sent, PIECE);
}

static void receives(int stream, int count)
{
    char in[PIECE];
    for (int i = 0; i < count; i++)
        recv(stream, in, sizeof in, 0);
}

static void serves(int stream, int count)
{
    static int own;
    struct epoll_event one = { .events = EPOLLIN };
    char in[PIECE];
    if (own == 0) {
        own = epoll_create1(0);
        epoll_ctl(own, EPOLL_CTL_ADD, stream, &one);
    }
    for (int i = 0; i < count; i++) {
        if (epoll_wait(own, &one, 1, 1000) == 1) {
            long now = recv(stream, in, sizeof in, MSG_DONTWAIT);
            if (now > 0)
                write(stream, in, now);
        }
    }
}

/* Makes connections with memory of their own, and ends them. */
static void makes(int stream, int count)
{
    char word[PIECE] = { 0 };
    (void)stream;
    for (int i = 0; i < count; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
            _exit(78);
        for (int turn = 0; turn < 4; turn++)
            if (write(pair[turn & 1], word, PIECE) != PIECE ||
                recv(pair[~turn & 1], word, PIECE, MSG_WAITALL) != PIECE)
                _exit(79);
        close(pair[0]);
        close(pair[1]);
    }
}

/* Names of this form in the directory of the shared memory. */
static int names(const char *form)
{
    char pattern[PATH_MAX];
    const char *home = getenv("M3_RUNTIME_DIR");
    glob_t all;
    snprintf(pattern, sizeof pattern, "%s/sock-*/%s", home ? home : "/nowhere", form);
    if (glob(pattern, 0, NULL, &all) != 0)
        return 0;
    int count = (int)all.gl_pathc;
    globfree(&all);
    return count;
}

/* Leads a child through `steps` steps and kills it; the number of steps, where the child ended. */
static long led(void (*act)(int, int), int stream, long most)
{
    long steps = 0;
    int outcome;
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        act(stream, 5);
        raise(SIGSTOP);
        act(stream, tries(0) ? 2 : 1);
        raise(SIGSTOP);
        _exit(0);
    }
    close(stream);
    waitpid(child, &outcome, 0);
    if (!WIFSTOPPED(outcome))
        leave_out("a process may not be traced here");
    while (steps < most && ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0) {
        waitpid(child, &outcome, 0);
        if (!WIFSTOPPED(outcome) || WSTOPSIG(outcome) == SIGSTOP)
            break;
        steps++;
    }
    kill(child, SIGKILL);
    waitpid(child, &outcome, 0);
    return steps;
}

static void at_each_step(void (*act)(int, int), int survivor)
{
    int count = tries(5);
    unsigned next = seed_of(survivor);
    long all = 0;
    for (int i = 0; i < count; i++) {
        mesh(1);
        long most = STEPS_MOST;
        if (i > 0) {
            next = next * 1103515245 + 12345;
            most = all * (i - 1) / (count - 1) + (next >> 8) % (all / count + 1);
        }
        far_part(survivor, 1);
        long steps = led(act, ends[1], most);
        all = i == 0 ? steps : all;
        long came = far_ended();
        say(came == 1 ? "what was sent, then an end" : came == 2 ? "wrong bytes" : "another error");
        if (came != 1)
            fprintf(stderr, "killed after %ld of %ld steps\n", steps, all);
    }
    if (getenv("TRIES"))
        fprintf(stderr, "%d tries, %ld steps\n", count, all);
    /* The next processes find the memory in order. */
    mesh(1);
    far_write_here(1, "and on it goes");
    GET(read(ends[1], bytes, 100));
}

void two_steps_send(void)
{
    at_each_step(sends, PART_DRAIN);
}

void two_steps_receive(void)
{
    at_each_step(receives, PART_POUR);
}

void two_steps_serve(void)
{
    at_each_step(serves, PART_PING);
}

/* A kill at each step of the making of a pair. Later connections remove what is left. */
void two_steps_make(void)
{
    at_each_step(makes, PART_DRAIN);
    makes(0, 400);
    say("unfinished pairs: %d, more than a few names: %d", names("t*"), names("*") > 100);
}
