/*
 * The common part of the epoll cases: a side that watches, which holds the whole case, and a side
 * that
 * obeys.
 */
#ifndef SETS_H
#define SETS_H
#include "matrix.h"

#define ENDS 256

/* The streams of this side: 0 is the stream of the case, `mesh` makes the others. */
extern int ends[ENDS];
extern struct epoll_event list[64];

/* epoll_ctl with a line in the log. */
void watch(int set, int what, int stream, unsigned wanted, unsigned mark);
/* Logs the events of a wait, in the order of their data: the kernel's order may differ. */
void found(const char *what, int count, struct epoll_event *in);
#define WAIT(set, time) found("epoll_wait(" #set ", " #time ")", epoll_wait(set, list, 64, time), \
    list)
/* Waits until one event has all these bits, and logs them. */
void until_mask(int set, unsigned wanted);
/* A set that watches the stream of the case, has reported bytes once, and has nothing to report. */
int idle_set(unsigned wanted);

/* The side that obeys. */
void one_servant(void), two_servant(void);
/* Lets the other side write; returns after that. */
void far_write(int stream, const char *text);
/* Lets the other side write; returns when the bytes can be received here. */
void far_write_here(int stream, const char *text);
/* Lets the other side write when a thread sleeps, or at any time for 0; returns at once. */
void far_later(int thread, int stream, const char *text);
void far_close(int stream);
void far_shutdown(int stream);
/* Lets the other side read, and logs the outcome. */
void far_read(int stream, int count);
/* Lets the other side start one of the long parts below; returns at once. */
void far_part(int which, int value);
/* Waits for the end of a long part; its outcome. */
long far_ended(void);
extern long (*const parts[])(int value);
enum { PART_ASK, PART_BULK, PART_CHURN, PART_ASLEEP, PART_SOME, PART_DRAIN, PART_POUR, PART_PING,
    PART_HOSTILE, PART_ORDER, PART_CLEAR };
long send_in_order(int kind);
long drain(int stream), pour(int stream), ping(int stream), hostile(int seed),
    clears(int process);
/* epoll_wait that goes on after a stop of the process, and recv of exactly `count` bytes. */
int waited(int set, struct epoll_event *in, int room);
long whole(int stream, char *to, long count);
/* Leaves a case out that cannot run here. */
void leave_out(const char *why) __attribute__((noreturn));
/* Makes `count` more streams to the other side. */
void mesh(int count);
/* The address for connections of the other side that `mesh` does not make. */
extern struct sockaddr_storage there;
extern socklen_t there_length;
void far_address(const struct sockaddr_storage *at, socklen_t length);

/* Waits until a thread of any process sleeps, for some seconds at most. */
void until_asleep(int thread);

/* A thread that makes one call on a descriptor, and its outcome; `begin` returns when it sleeps. */
struct sleeper {
    pthread_t thread;
    volatile int number;
    int stream;
    long (*act)(struct sleeper *self);
    long value;
    struct epoll_event list[8];
};
void begin(struct sleeper *one, int stream, long (*act)(struct sleeper *self));
/* Waits for the end of the thread, and logs the outcome. */
void finish(struct sleeper *one, const char *what);
long act_wait(struct sleeper *self), act_poll(struct sleeper *self),
    act_select(struct sleeper *self),
    act_read(struct sleeper *self), act_peek(struct sleeper *self);
/* A child by fork, whose exit status is logged. */
#define CHILD for (pid_t child_ = fork(); child_ >= 0; child_ = ended(child_)) if (child_ == 0)
pid_t ended(pid_t child);
/* The shared words of a stream, and the word of a lock that a living thread seems to hold. */
volatile unsigned long *page_of(int stream);
unsigned long held_by_another(void);
void watched_after_exec(int stream), inherited_after_exec(int stream);
#endif
