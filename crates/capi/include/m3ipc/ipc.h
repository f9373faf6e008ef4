/*
 * Messages: send, receive, notify. Part of m3ipc.h; see there for results, threads and signals.
 *
 * Every call of this file but mnx_wakeup needs a bound caller. Besides the codes below, each of
 * them may return:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLNOTBIND       the caller is not bound
 *   EMOLNOTREADY      another thread is inside a call on this endpoint
 *   EMOLRANGE         the slot of dst or src is out of range, or is M3_ANY (as a destination),
 *                     M3_NONE or M3_SELF
 *   EMOLENDPOINT      dst or src is the caller's own endpoint, or of another generation
 *   EMOLTRAPDENIED    the privileges of the caller do not allow this call
 *   EMOLCALLDENIED    the privileges of the caller do not allow this partner
 *   EMOLPEERBROKE     the partner broke the rules of the link, which is closed for good
 *   EMOLADDRNOTAVAIL  a pointer cannot be read or written
 * Each call that blocks may also return:
 *   EMOLAGAIN         the limit is 0 and the call would wait
 *   EMOLTIMEDOUT      the limit is over
 *   EMOLINTR          a signal with a handler ended the call
 *   EMOLNOPAYLOAD     the receiver has no memory or addresses for a large payload
 *   EMOLANSWERLOST    the partner took the request, and no answer comes: its node was lost, or the
 *                     large payload of the answer could not be accepted here
 *   EMOLNOTCONN       the node of the partner cannot be reached; the message was not taken
 *   EMOLUNKNOWN       the node of the partner was lost or is silent: nobody knows whether the
 *                     partner took the message
 *   EMOLSHUTDOWN      another process unbound the caller meanwhile
 *   EMOLINVAL         the limit is negative and not M3_TIMEOUT_FOREVER
 *
 * A complete client and server are in examples/c/hello.c.
 */
#ifndef M3IPC_IPC_H
#define M3IPC_IPC_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages ---------------------------------------------------------- */

/*
 * Sends a message and returns when the receiver has taken it. Nothing is buffered.
 *
 *   dst         endpoint of the receiver
 *   m           message of 48 bytes; m_source is ignored
 *   timeout_ms  milliseconds to wait
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLDSTDIED  the receiver has gone, before or during the call
 *   EMOLLOCKED   the call would close a circle of processes that wait for each other
 * Blocks. On any failure the message is surely withdrawn.
 */
int mnx_send(int dst, m3_message *m);
int mnx_send_T(int dst, m3_message *m, long timeout_ms);

/*
 * Receives a message.
 *
 * From M3_ANY the order is: a remembered wakeup, then notifications, lowest slot first and one in
 * each call, then messages by priority, then arrival. From an endpoint, the call takes only what
 * that endpoint sent or notified.
 *
 *   src         endpoint of the sender, or M3_ANY
 *   m           receives the message; the node vouches for m_source
 *   timeout_ms  milliseconds to wait
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLSRCDIED  the sender has gone, before or during the call
 *   EMOLWOKENUP  mnx_wakeup ended the call (from M3_ANY only)
 *   EMOLMSGSIZE  a long message was taken and its long part dropped
 *   EMOLLOCKED   the call would close a circle of processes that wait for each other
 * Blocks.
 *
 *   if (mnx_receive(M3_ANY, &m) == M3_OK && M3_IS_NOTIFY(&m)) handle_notification(m.m_source);
 */
int mnx_receive(int src, m3_message *m);
int mnx_receive_T(int src, m3_message *m, long timeout_ms);

/*
 * Sends a request and waits for the answer of the same process.
 *
 * Any send or reply of dst is the answer. Notifications, and messages of others, stay queued. If
 * dst relays the request, the process that takes it answers in its place.
 *
 *   dst         endpoint of the server
 *   m           request; receives the answer
 *   timeout_ms  milliseconds for the whole call
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLDEADSRCDST  no process is bound at dst
 *   EMOLDSTDIED     the server died before it took the request
 *   EMOLSRCDIED     the server died after it took the request
 *   EMOLLOCKED      the call would close a circle of processes that wait for each other
 *   EMOLMSGSIZE     the answer was a long message, and its long part was dropped
 * Blocks. After EMOLTIMEDOUT or EMOLINTR the server may have taken the request; its reply then
 * gets EMOLPROCSTS.
 *
 *   m.m_type = 1;
 *   m.m3_m1_i1 = 20;
 *   int code = mnx_sendrec_T(server, &m, 1000);
 */
int mnx_sendrec(int dst, m3_message *m);
int mnx_sendrec_T(int dst, m3_message *m, long timeout_ms);

/*
 * Receives a request that a client made with mnx_sendrec, or a notification. Messages of mnx_send
 * stay queued for mnx_receive.
 *
 *   m           receives the request
 *   timeout_ms  milliseconds to wait
 *
 * Returns 0, or a code of the list above, or EMOLWOKENUP, EMOLMSGSIZE or EMOLLOCKED, as
 * mnx_receive. Blocks.
 */
int mnx_rcvrqst(m3_message *m);
int mnx_rcvrqst_T(m3_message *m, long timeout_ms);

/*
 * Answers a process that waits in mnx_sendrec or mnx_receive for exactly the caller.
 *
 *   dst         endpoint of the client
 *   m           answer; m_source is ignored
 *   timeout_ms  checked, and without effect
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLPROCSTS  dst does not wait for the caller
 *   EMOLDSTDIED  dst has gone
 * Never blocks.
 */
int mnx_reply(int dst, m3_message *m);
int mnx_reply_T(int dst, m3_message *m, long timeout_ms);

/*
 * Answers as mnx_reply, then receives from M3_ANY as mnx_receive: the loop of a server in one call.
 *
 *   dst         endpoint of the client
 *   m           answer; receives the next message
 *   answered    receives 1 if dst has the answer, 0 if not; may be NULL. After 0 nothing was
 *               received and m has its old contents.
 *   timeout_ms  milliseconds to wait for the next message
 *
 * Returns 0, or a code of mnx_reply or of mnx_receive. Blocks.
 *
 *   code = mnx_receive(M3_ANY, &m);
 *   while (code == M3_OK) {
 *     m.m_type = handle(&m);
 *     code = m3_reply_receive(m.m_source, &m, &answered);
 *     if (code != M3_OK && !answered) code = mnx_receive(M3_ANY, &m);
 *   }
 */
int m3_reply_receive(int dst, m3_message *m, int *answered);
int m3_reply_receive_T(int dst, m3_message *m, int *answered, long timeout_ms);

/*
 * Hands the request that the caller took last, and has not answered, to another process.
 *
 * The receiver sees the client as m_source and answers it directly. A long part of the request
 * goes on unchanged. The client then waits for dst and learns the outcome of the request. On
 * failure the caller still holds the request.
 *
 *   dst         endpoint of the new server
 *   m           request as dst receives it
 *   timeout_ms  0 hands the request on only if dst receives from M3_ANY or from the client; any
 *               other limit has no effect
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLPROCSTS  the caller holds no request, or the client no longer waits
 *   EMOLDSTDIED  dst has gone
 *   EMOLAGAIN    the limit is 0 and dst is not receiving
 * Never blocks.
 */
int mnx_relay(int dst, m3_message *m);
int mnx_relay_T(int dst, m3_message *m, long timeout_ms);

/* ---- Notifications and wakeups ----------------------------------------- */

/*
 * Notifies a process. The receiver remembers one bit for each source until its next receive.
 *
 *   dst  endpoint of the receiver
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLDSTDIED  dst has gone
 * Never blocks.
 */
int mnx_notify(int dst);

/*
 * Notifies a process in the name of another slot.
 *
 *   src_nr  slot of the caller; for the owner of the VM also a task (below 0), bound or not
 *   dst     endpoint of the receiver
 *
 * Returns as mnx_notify, or:
 *   EMOLPRIVILEGES  the caller may not use this slot
 * Never waits for dst.
 */
int mnx_src_notify(int src_nr, int dst);

/*
 * Notifies a process as mnx_src_notify does, with an argument in M3_NOTIFY_ARG.
 *
 * Values that the receiver has not taken yet join as sets of bits.
 *
 *   src_nr  as in mnx_src_notify
 *   dst     endpoint of the receiver
 *   value   argument
 *
 * Returns as mnx_src_notify. Never waits for dst.
 */
int mnx_ntfy_value(int src_nr, int dst, int value);

/*
 * Notifies a process of any VM as M3_HARDWARE. The caller need not be bound.
 *
 *   vmid  number of the VM
 *   dst   endpoint of the receiver
 *
 * Returns 0, or:
 *   EMOLDRVSINIT    the node is not initialised
 *   EMOLBADVMID     vmid is out of range
 *   EMOLVMNOTRUN    the VM is not running
 *   EMOLPRIVILEGES  the caller neither owns the VM nor is root
 *   EMOLTRAPDENIED  the privileges of the caller do not allow this call
 *   EMOLRANGE       the slot of dst is out of range
 *   EMOLENDPOINT    another generation is bound at the slot of dst
 *   EMOLDSTDIED     dst has gone
 * Never waits for dst.
 */
int mnx_hdw_notify(int vmid, int dst);

/*
 * Ends the mnx_receive from M3_ANY, or the mnx_rcvrqst, of another endpoint with EMOLWOKENUP.
 *
 * The caller need not be bound.
 *
 *   vmid  number of the VM
 *   ep    endpoint to wake
 *
 * Returns 0, or:
 *   EMOLPROCRUN     ep was running; the wakeup is remembered until its next receive from M3_ANY
 *   EMOLPROCSTS     ep was blocked in another call; the wakeup is remembered
 *   EMOLDRVSINIT    the node is not initialised
 *   EMOLBADVMID     vmid is out of range
 *   EMOLVMNOTRUN    the VM is not running
 *   EMOLRANGE       the slot of ep is out of range
 *   EMOLENDPOINT    ep is of another generation
 *   EMOLDSTDIED     ep has gone
 *   EMOLPRIVILEGES  the caller may not wake this endpoint
 * Blocks until the daemon answers.
 */
int mnx_wakeup(int vmid, int ep);

/* ---- Deaths ------------------------------------------------------------- */

/*
 * Watches the death of an endpoint, or no longer.
 *
 * After the last message of ep, a receive from M3_ANY or M3_SYSTEM takes a notification of
 * M3_SYSTEM: M3_DEATH_ENDPOINT is ep and M3_DEATH_CODE is EMOLSRCDIED. An unbind and an exec count
 * as deaths. The watch ends with the death.
 *
 *   ep  endpoint to watch
 *
 * Returns 0, or a code of the list above (m3_unwatch: of the caller), or:
 *   EMOLDSTDIED  ep has gone; nothing is watched
 *   EMOLINTR     a signal with a handler ended the call
 * m3_watch waits for the daemon where the caller has had no contact with ep; m3_unwatch never.
 *
 *   m3_watch(client);
 *   mnx_receive(M3_ANY, &m);
 *   if (m3_kind() == M3_KIND_DEATH) forget_client(m.M3_DEATH_ENDPOINT);
 */
int m3_watch(int ep);
int m3_unwatch(int ep);

/*
 * Watches each endpoint that exchanges messages or notifications with the caller, as m3_watch.
 *
 *   on  1, or 0 to end it
 *
 * Returns 0, or EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY, or:
 *   EMOLINVAL  on is neither 0 nor 1
 * Never blocks.
 */
int m3_watch_all(int on);

/* ---- Pulses and timers ------------------------------------------------- */

/*
 * Sends a pulse: a notification with a code and a value.
 *
 * The pulse waits in a queue until dst receives it. A receive takes the pulses of a sender in their
 * order, one in each call, after its notification and before its messages. The message has the type
 * M3_PULSE and the fields M3_PULSE_CODE and M3_PULSE_VALUE; m3_kind returns M3_KIND_PULSE.
 *
 *   dst    endpoint of the receiver
 *   code   0 to 255
 *   value  any number
 *
 * Returns 0, or a code of the list above, or:
 *   EMOLAGAIN    M3_PULSES_MAX pulses of the caller wait for dst, or dst has not returned to a new
 *                daemon yet. This pulse was not taken; the others stay.
 *   EMOLDSTDIED  the receiver has gone
 *   EMOLINVAL    code is out of range
 * Never blocks. Pulses arrive although their sender dies or unbinds, as notifications do. Those on
 * the way to another node may end with their sender.
 *
 *   code = m3_pulse_send(server, 1, (uintptr_t)job);
 */
int m3_pulse_send(int dst, int code, uint64_t value);

/*
 * Returns the number of pulses of the caller that wait for dst, 0 to M3_PULSES_MAX; or
 * EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY. Never blocks.
 */
int m3_pulse_pending(int dst);

/*
 * Sets a timer, which sends pulses to the caller itself.
 *
 * mnx_receive from M3_ANY and mnx_rcvrqst take them. Their source is the caller's own endpoint. One
 * pulse stands for all times that the timer ran out since the last take; M3_PULSE_COUNT counts
 * them. A timer without a period ends with its pulse. m3_fd does not report timers.
 *
 *   code, value  those of the pulse, as in m3_pulse_send
 *   first_ns     nanoseconds until the first pulse
 *   period_ns    nanoseconds between the later ones, or 0 for a single pulse
 *
 * Returns the number of the timer, above 0, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLINVAL     code is out of range
 *   EMOLNOMEM     the endpoint has M3_TIMERS_MAX timers
 * Never blocks.
 *
 *   int timer = m3_timer(TICK, 0, 1000000, 1000000);
 */
int m3_timer(int code, uint64_t value, uint64_t first_ns, uint64_t period_ns);

/*
 * Ends a timer, and takes its pulse back if no receive has taken that.
 *
 * Returns 0, or EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY, or:
 *   EMOLBADVALUE  the caller has no such timer (any more)
 * Never blocks.
 */
int m3_timer_cancel(int timer);

/* ---- What was taken ---------------------------------------------------- */

/*
 * Tells the kind of what the calling endpoint took last.
 *
 * The sender cannot choose it, other than the type of its message.
 *
 * Returns M3_KIND_MESSAGE, M3_KIND_REQUEST, M3_KIND_NOTIFY, M3_KIND_DEATH or M3_KIND_PULSE, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLNOMSG     the endpoint has taken no message yet
 * Never blocks.
 */
int m3_kind(void);

/* ---- Long messages ----------------------------------------------------- */

/*
 * Send and reply with bytes besides the 48 of the message.
 *
 * Up to M3_LONG_MAX bytes travel in the link itself. More travel as a block of an area, which the
 * library makes. A len of 0 is the plain call.
 *
 *   dst         endpoint of the receiver
 *   m           message
 *   buf         bytes to send
 *   len         number of bytes, at most M3_LARGE_MAX
 *   timeout_ms  milliseconds to wait
 *
 * Return as mnx_send and mnx_reply, or:
 *   EMOLMSGSIZE  len is above M3_LARGE_MAX, or above the receive limit of dst (M3_RECEIVE_LIMIT, or
 *                that of m3_set_receive_limit); nothing was sent
 * m3_send_long blocks; m3_reply_long never waits for its receiver.
 */
int m3_send_long(int dst, m3_message *m, const void *buf, size_t len);
int m3_send_long_T(int dst, m3_message *m, const void *buf, size_t len, long timeout_ms);
int m3_reply_long(int dst, m3_message *m, const void *buf, size_t len);

/*
 * Receive with the bytes besides the 48 of the message.
 *
 *   src         endpoint of the sender, or M3_ANY
 *   m           receives the message
 *   buf         receives the bytes
 *   cap         size of buf in bytes
 *   len         receives the number of bytes that came, 0 for a plain message or a notification;
 *               may be NULL. On any code but EMOLMSGSIZE *len is 0.
 *   timeout_ms  milliseconds to wait
 *
 * Return as mnx_receive and mnx_rcvrqst, or:
 *   EMOLMSGSIZE  more than cap bytes came. The message is taken, buf holds the first cap bytes and
 *                *len is the whole number.
 * Block. The library checks the part of buf beyond M3_LONG_MAX bytes only when the bytes come.
 */
int m3_receive_long(int src, m3_message *m, void *buf, size_t cap, size_t *len);
int m3_receive_long_T(int src, m3_message *m, void *buf, size_t cap, size_t *len,
                      long timeout_ms);
int m3_rcvrqst_long(m3_message *m, void *buf, size_t cap, size_t *len);
int m3_rcvrqst_long_T(m3_message *m, void *buf, size_t cap, size_t *len, long timeout_ms);

/*
 * Sends a request and receives its answer, both with bytes besides the 48 of the message.
 *
 *   dst         endpoint of the server
 *   m           request; receives the answer
 *   out         bytes of the request
 *   out_len     number of bytes of the request, at most M3_LARGE_MAX
 *   in          receives the bytes of the answer; may be the same memory as out
 *   cap         size of in, in bytes
 *   len         receives the number of bytes of the answer, as m3_receive_long; may be NULL
 *   timeout_ms  milliseconds for the whole call
 *
 * Returns as mnx_sendrec, with EMOLMSGSIZE as m3_send_long and m3_receive_long. Blocks.
 *
 *   char answer[256];
 *   size_t len;
 *   code = m3_sendrec_long(server, &m, "hello", 5, answer, sizeof answer, &len);
 */
int m3_sendrec_long(int dst, m3_message *m, const void *out, size_t out_len,
                    void *in, size_t cap, size_t *len);
int m3_sendrec_long_T(int dst, m3_message *m, const void *out, size_t out_len,
                      void *in, size_t cap, size_t *len, long timeout_ms);

/*
 * Answers as m3_reply_long, then receives from M3_ANY as m3_receive_long: the loop of a server in
 * one call. The answer goes first: if it fails, nothing is received.
 *
 *   dst         endpoint of the client
 *   m           answer; receives the next message
 *   out         bytes of the answer
 *   out_len     number of bytes of the answer, at most M3_LARGE_MAX
 *   in          receives the bytes of the next message; may be the same memory as out
 *   cap         size of in, in bytes
 *   len         receives the number of bytes that came, as m3_receive_long; may be NULL
 *   answered    receives 1 if dst has the answer, 0 if not; may be NULL. After 0 nothing was
 *               received and m has its old contents.
 *   timeout_ms  milliseconds to wait for the next message
 *
 * Returns 0, or a code of m3_reply_long or of m3_receive_long. Blocks.
 *   EMOLMSGSIZE  after 0 in answered: as m3_reply_long. After 1: more than cap bytes came. The
 *                message is taken, in holds the first cap bytes and *len is the whole number.
 *
 *   code = m3_receive_long(M3_ANY, &m, buf, sizeof buf, &len);
 *   while (code == M3_OK) {
 *     len = handle(&m, buf, len);
 *     code = m3_reply_receive_long(m.m_source, &m, buf, len, buf, sizeof buf, &len, &answered);
 *     if (code != M3_OK && !answered) code = m3_receive_long(M3_ANY, &m, buf, sizeof buf, &len);
 *   }
 */
int m3_reply_receive_long(int dst, m3_message *m, const void *out, size_t out_len,
                          void *in, size_t cap, size_t *len, int *answered);
int m3_reply_receive_long_T(int dst, m3_message *m, const void *out, size_t out_len,
                            void *in, size_t cap, size_t *len, int *answered, long timeout_ms);

/* ---- Long messages in parts -------------------------------------------- */

struct iovec; /* <sys/uio.h> */

/*
 * The calls of long messages, with bytes in parts as readv(2) and writev(2) name them.
 *
 * The parts of a message are one row of bytes: their number and their sizes do not travel. The
 * library copies them together, as it copies each long message.
 *
 *   iov, out, in       parts; those of m3_receivev and of in are filled in their order
 *   count, out_count, in_count
 *                      number of parts, 0 to 1024
 *   len                receives the number of bytes that came; may be NULL
 *   dst, src, m, timeout_ms
 *                      as in m3_send_long, m3_reply_long, m3_receive_long and m3_sendrec_long
 *
 * Return as those calls, or:
 *   EMOLINVAL         a number of parts is out of range
 *   EMOLADDRNOTAVAIL  an array or a part cannot be read, or a part to be filled not written
 * All block but m3_replyv.
 *
 *   struct iovec parts[] = {{&head, sizeof head}, {text, strlen(text)}};
 *   code = m3_sendv(server, &m, parts, 2);
 */
int m3_sendv(int dst, m3_message *m, const struct iovec *iov, int count);
int m3_sendv_T(int dst, m3_message *m, const struct iovec *iov, int count, long timeout_ms);
int m3_replyv(int dst, m3_message *m, const struct iovec *iov, int count);
int m3_receivev(int src, m3_message *m, const struct iovec *iov, int count, size_t *len);
int m3_receivev_T(int src, m3_message *m, const struct iovec *iov, int count, size_t *len,
                  long timeout_ms);
int m3_sendrecv(int dst, m3_message *m, const struct iovec *out, int out_count,
                const struct iovec *in, int in_count, size_t *len);
int m3_sendrecv_T(int dst, m3_message *m, const struct iovec *out, int out_count,
                  const struct iovec *in, int in_count, size_t *len, long timeout_ms);

/* ---- The calling endpoint ---------------------------------------------- */

/*
 * Chooses how the calling endpoint waits.
 *
 *   wait  M3_WAIT_ADAPTIVE  polls or yields the CPU while that is likely to pay, then sleeps; the
 *                           wait of a new endpoint
 *         M3_WAIT_SPIN      polls and never sleeps, for CPUs without other work
 *         M3_WAIT_BLOCK     sleeps at once; yields the CPU once before to a peer on the same CPU,
 *                           unless that was in vain lately
 *
 * Returns 0, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLINVAL     wait is another number
 * Never blocks.
 */
int m3_set_wait(int wait);

/*
 * Sets the priority of the caller: its place among the senders that wait for a receiver.
 *
 * A receiver takes the messages of the highest priority first, and messages of one priority in the
 * order of their arrival. A message beside n others comes at the latest with receive 32 + 4 n from
 * ANY. Messages that the caller posted before keep their place.
 *
 *   priority  0, as all other endpoints, to M3_PRIORITY_MAX
 *
 * Returns 0, or EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY, or:
 *   EMOLBADRANGE  priority is out of range
 * Never blocks.
 */
int m3_set_priority(int priority);

/*
 * Returns the priority of the caller: what it has set, or what it took over if that is higher; or
 * EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY. Never blocks.
 */
int m3_priority(void);

/*
 * Chooses what the caller takes over from clients that wait for it or for its answer. The calls of
 * an endpoint that takes something over are slower.
 *
 *   inheritance  M3_INHERIT_NONE    nothing; that of a new endpoint
 *                M3_INHERIT_ORDER   the highest priority of a client, for the caller's own requests
 *                M3_INHERIT_THREAD  the same, and the calling thread runs under SCHED_FIFO at that
 *                                   priority until its answer. As a client, the caller also raises
 *                                   such threads of servers of the same user while it waits.
 *
 * Returns 0, or EMOLDRVSINIT, EMOLNOTBIND or EMOLNOTREADY, or:
 *   EMOLPERM   this thread may not run under SCHED_FIFO; the inheritance is as before
 *   EMOLINVAL  inheritance is another number
 * Never blocks.
 */
int m3_set_inheritance(int inheritance);

/*
 * Reads the identity of the process that sent the message taken last.
 *
 *   peer  receives endpoint, VM, node, process id, user and group; the node vouches for all fields
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLNOTBIND       the caller is not bound
 *   EMOLNOTREADY      another thread is inside a call on this endpoint
 *   EMOLNOMSG         the endpoint has taken no message yet
 *   EMOLADDRNOTAVAIL  peer cannot be written
 * Blocks until the daemon answers, the first time only.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* in C++: the structure has this name, too */
int m3_peer(struct m3_peer *peer);
#pragma GCC diagnostic pop

/*
 * Returns a descriptor that polls readable when mnx_receive from M3_ANY may have a message.
 *
 * The descriptor belongs to the library and ends with the endpoint. Poll it; never read, write or
 * close it. Readable is a hint: call mnx_receive_T with M3_TIMEOUT_NOWAIT until it returns
 * EMOLAGAIN, and only then poll. After any other call on the endpoint, call mnx_receive_T again
 * before the next poll.
 *
 * Returns the descriptor, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 * Never blocks.
 */
int m3_fd(void);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_IPC_H */
