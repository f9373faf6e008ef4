/*
 * m3ipc: microkernel-style message passing between Linux processes, in user space.
 *
 * This header declares the C interface of M3-IPC (DRVS) and of its later releases (MOL-IPC,
 * DVK). A program written for any of them compiles against it unchanged. Link with -lm3ipc
 * (pkg-config m3ipc). Each function has a manual page in section 3; m3ipc(7) is the overview.
 *
 * Names
 *   mnx_, EMOL        calls and codes of M3-IPC
 *   m3_, M3_          additions of m3ipc, and a second name for every short name
 *   OK, ANY, message  short names of M3-IPC; ANY is M3_ANY, message is m3_message, and so on
 * Define M3_NO_SHORT_NAMES before the include to leave the short names out. C++ programs and
 * programs with macros of the same names need this.
 *
 * Results
 *   A call returns 0 or a value on success and a negative code of m3ipc/codes.h on failure. No
 *   call sets errno, except the sockets of m3ipc/sock.h. Endpoints of tasks are negative too, so
 *   a call that returns an endpoint has failed if the result is below EMOLERRCODE.
 *
 * Order of checks: the first check that fails gives the result.
 *   EMOLDRVSINIT   the node is not initialised
 *   EMOLNOTBIND    the caller is not bound
 *   EMOLNOTREADY   another thread is inside a call on this endpoint
 *   EMOLBADVMID    the VM id is out of range
 *   EMOLVMNOTRUN   the VM is not running
 *   EMOLRANGE      the slot is out of range, or ANY, NONE or SELF stands for a process
 *   EMOLENDPOINT   the endpoint is the caller's own, or of another generation
 *   EMOLDSTDIED, EMOLSRCDIED or EMOLDEADSRCDST: the holder of the endpoint has gone
 *
 * Pointers
 *   A pointer that cannot be read or written gives EMOLADDRNOTAVAIL. The library checks each page
 *   at the first call of a thread, or on an endpoint, that names it. It does not notice a page that
 *   is unmapped later.
 *
 * Time limits
 *   A form that ends in _T takes a limit in milliseconds. M3_TIMEOUT_NOWAIT (0) does not wait.
 *   M3_TIMEOUT_FOREVER (-1) waits as the plain form does. Any other negative limit is EMOLINVAL.
 *   A limit of 0 gives EMOLAGAIN from calls that pass messages and EMOLTIMEDOUT from calls that
 *   wait for an endpoint or a name. Any other limit gives EMOLTIMEDOUT when it is over.
 *
 * Threads
 *   Every call may be made in any thread. Threads share the endpoint of their process, one call
 *   at a time. A thread that called mnx_tbind has its own endpoint. A child by fork is unbound.
 *   No call is a cancellation point.
 *
 * Signals
 *   A signal with a handler ends a blocked call with EMOLINTR. The message is then surely withdrawn
 *   or surely delivered, and the code says which. A call inside a signal handler that interrupted
 *   a call on the same endpoint gets EMOLNOTREADY.
 */
#ifndef M3IPC_H
#define M3IPC_H

#include "m3ipc/codes.h"
#include "m3ipc/numbers.h"
#include "m3ipc/message.h"
#include "m3ipc/records.h"

/* The release of this header. m3_version() returns the release of the library. */
#define M3IPC_VERSION_MAJOR 0
#define M3IPC_VERSION_MINOR 1
#define M3IPC_VERSION_PATCH 0

#include "m3ipc/node.h"
#include "m3ipc/endpoint.h"
#include "m3ipc/ipc.h"
#include "m3ipc/copy.h"
#include "m3ipc/area.h"
#include "m3ipc/remote.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns the meaning of a code in a few words.
 *
 *   code  a result of any call
 *
 * Returns a static text, never NULL. Never blocks; safe in every thread.
 *
 *   if (code != M3_OK) fprintf(stderr, "send: %s\n", m3_strerror(code));
 */
const char *m3_strerror(int code);

/*
 * Returns why the last failed call of the calling thread failed, as a sentence: what happened, to
 * which name, slot or limit, and what to do next.
 *
 * Returns a text, never NULL. It stays valid until a call of the thread fails, or the thread ends.
 * A call that succeeds leaves it as it is, so ask only after a failure. The calls of
 * m3ipc/sock.h set errno, and leave it too. Not for signal handlers.
 *
 *   if (code != M3_OK) fprintf(stderr, "send: %s\n", m3_last_reason());
 */
const char *m3_last_reason(void);

/* What became of the message of a failed call: the results of m3_last_delivery. */
#define M3_NOT_TAKEN 0        /* the receiver has not taken it, and never will: repeat it */
#define M3_TAKEN 1            /* the receiver has taken it; no answer comes */
#define M3_DELIVERY_UNKNOWN 2 /* nobody knows: check the effect before you repeat it */

/*
 * Returns what became of the message of the last failed call of the calling thread.
 *
 * Returns M3_NOT_TAKEN, M3_TAKEN or M3_DELIVERY_UNKNOWN. A call without a message leaves
 * M3_NOT_TAKEN. Ask only after a failure, as with m3_last_reason. Never blocks.
 *
 *   if (mnx_sendrec_T(to, &m, 100) < 0 && m3_last_delivery() == M3_NOT_TAKEN) again();
 */
int m3_last_delivery(void);

/*
 * Tells whether the block of the last failed call of the calling thread is still the caller's.
 *
 * Returns 1 if it is, or if the call had no block; 0 if the receiver has or had the block. Ask only
 * after a failure. Never blocks.
 *
 *   if (m3_sendrec_block(to, &m, block) < 0 && m3_last_block_kept()) m3_block_free(block);
 */
int m3_last_block_kept(void);

/*
 * Tells the kind of what the calling thread received last, as m3_kind does for the endpoint, which
 * other threads may use as well.
 *
 * Returns M3_KIND_MESSAGE and so on; or EMOLNOMSG if the thread has received nothing. Never blocks.
 */
int m3_last_kind(void);

/*
 * Returns the release of the library, for example "0.1.0".
 *
 * Returns a static text, never NULL. Never blocks; safe in every thread and in signal handlers.
 */
const char *m3_version(void);

#ifdef __cplusplus
}
#endif

#ifndef M3_NO_SHORT_NAMES
#include "m3ipc/short.h"
#include "m3ipc/later.h"
#endif

#endif /* M3IPC_H */
