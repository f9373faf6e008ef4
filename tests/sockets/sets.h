/*
 * What the cases about epoll have in common: a side that watches, with all of the case in it, and a side that obeys.
 */
#ifndef SETS_H
#define SETS_H
#include "matrix.h"

#define ENDS 256

/* The streams of this side: 0 is the case's own, the others are made by `mesh`. */
extern int ends[ENDS];
extern struct epoll_event list[64];

/* epoll_ctl, logged. */
void watch(int set, int what, int stream, unsigned wanted, unsigned mark);
/* Logs what a wait found, in the order of marks: that of the kernel is nobody's business. */
void found(const char *what, int count, struct epoll_event *in);
#define WAIT(set, time) found("epoll_wait(" #set ", " #time ")", epoll_wait(set, list, 64, time), list)
/* Waits until these bits have been told of together, and logs them. */
void until_mask(int set, unsigned wanted);
/* A set that watches the case's stream, has told of bytes once, and has nothing to tell now. */
int lit(unsigned wanted);

/* The side that obeys. */
void one_servant(void), two_servant(void);
/* Lets the other side write, and returns when it has. */
void far_write(int stream, const char *text);
/* The same, and returns when the bytes can be received here. */
void held(int stream, const char *text);
/* Lets the other side write when that thread sleeps, or at any time where it is 0; returns at once. */
void far_later(int thread, int stream, const char *text);
void far_close(int stream);
void far_shutdown(int stream);
/* Lets the other side read, and logs what came of it. */
void far_read(int stream, int count);
/* Lets the other side do one of the long parts, below; returns at once. */
void far_part(int which, int value);
/* What came of it: waits for its end. */
long far_ended(void);
extern long (*const parts[])(int value);
enum { PART_CROWD, PART_BULK, PART_CHURN, PART_ASLEEP, PART_SOME, PART_DRAIN, PART_POUR, PART_PING, PART_HOSTILE };
long drain(int stream), pour(int stream), ping(int stream), hostile(int seed);
/* epoll_wait that goes on after a stop, and recv of all of so many bytes. */
int waited(int set, struct epoll_event *in, int room);
long whole(int stream, char *to, long count);
/* This case cannot be run here. */
void leave_out(const char *why) __attribute__((noreturn));
/* So many more streams to the other side. */
void mesh(int count);
/* Where the other side's connections go that are not made by `mesh`. */
extern struct sockaddr_storage there;
extern socklen_t there_length;
void far_address(const struct sockaddr_storage *at, socklen_t length);

/* Waits until a thread of any process sleeps; goes on after some seconds in any case. */
void until_asleep(int thread);

/* A thread that does one thing with a descriptor, and what came of it; `begin` returns when it sleeps. */
struct sleeper {
    pthread_t thread;
    volatile int number;
    int stream;
    long (*act)(struct sleeper *self);
    long value;
    struct epoll_event list[8];
};
void begin(struct sleeper *one, int stream, long (*act)(struct sleeper *self));
/* Waits for its end and logs it. */
void finish(struct sleeper *one, const char *what);
long act_wait(struct sleeper *self), act_poll(struct sleeper *self), act_select(struct sleeper *self),
    act_read(struct sleeper *self), act_peek(struct sleeper *self);
/* A child by fork; logs its outcome when it ends. */
#define CHILD for (pid_t child_ = fork(); child_ >= 0; child_ = ended(child_)) if (child_ == 0)
pid_t ended(pid_t child);
void watched_after_exec(int stream), inherited_after_exec(int stream);
#endif
