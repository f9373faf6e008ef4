/*
 * Endpoints: bind, look up, wait, describe, restrict, name. Part of m3ipc.h; see there for
 * results, threads and signals.
 */
#ifndef M3IPC_ENDPOINT_H
#define M3IPC_ENDPOINT_H

#include <stddef.h>

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Bind and unbind --------------------------------------------------- */

/*
 * Binds the calling process to a slot of a VM.
 *
 * Threads without an endpoint of their own use this endpoint, one call at a time. A process is
 * bound in at most one VM. mnx_unbind, exit, exec and death end the binding. A child by fork is
 * unbound.
 *
 *   vmid  number of the VM
 *   nr    slot: below 0 for tasks, 0 to 28 for servers, from M3_FIRST_USER_NR for users
 *
 * Returns the endpoint, or:
 *   EMOLDRVSINIT    the node is not initialised
 *   EMOLBADVMID     vmid is out of range
 *   EMOLVMNOTRUN    the VM is not running
 *   EMOLRANGE       the slot is outside the limits of the VM
 *   EMOLSLOTUSED    the slot is taken, or the caller is bound already
 *   EMOLPRIVILEGES  the mode of the VM or the daemon does not allow the bind
 * A result below EMOLERRCODE is a code. EMOLRANGE is the one code above it; M3_BOUND tells it
 * from the endpoint of task -34. Blocks until the daemon answers.
 *
 *   int self = mnx_bind(vmid, M3_FIRST_USER_NR);
 *   if (!M3_BOUND(self, M3_FIRST_USER_NR)) errx(1, "bind: %s", m3_strerror(self));
 */
int mnx_bind(int vmid, int nr);

/*
 * Binds the calling thread to a slot of the VM in which its process is bound.
 *
 * The endpoint ends with the thread.
 *
 *   vmid  number of the VM of the process
 *   nr    slot, as for mnx_bind
 *
 * Returns as mnx_bind, or:
 *   EMOLGRPLEADER  the process of the thread is not bound in this VM
 * Blocks until the daemon answers.
 */
int mnx_tbind(int vmid, int nr);

/*
 * Bind to the lowest free slot for users: m3_bind_any the calling process, as mnx_bind;
 * m3_tbind_any the calling thread, as mnx_tbind.
 *
 *   vmid  number of the VM
 *
 * Return the endpoint, or a code of mnx_bind or mnx_tbind. EMOLSLOTUSED also if no slot is free.
 * A result below 0 is a code. Block until the daemon answers.
 */
int m3_bind_any(int vmid);
int m3_tbind_any(int vmid);

/*
 * Binds the calling process as the backup of a slot: waits until the slot is at this node.
 *
 * The registry of the nodes names the backup of a slot. The backup takes the place of the endpoint
 * there, with its address, when the node of that endpoint has ended. Root may take it, and the user
 * of a node that serves one user alone. The program of that node may wait in the same way, until
 * the backup has ended. Without m3-proxy the wait goes on.
 *
 *   vmid        number of the VM
 *   nr          slot, as for mnx_bind
 *   timeout_ms  milliseconds to wait
 *
 * Returns as mnx_bind, at once for a caller that is bound or may not bind the slot, or:
 *   EMOLRMTPROC   another node has the slot, and its backup is not at this node
 *   EMOLTIMEDOUT  the limit is over, also with a limit of 0
 *   EMOLINTR      a signal ended the wait
 *   EMOLINVAL     the limit is negative and not M3_TIMEOUT_FOREVER
 */
int m3_bind_backup(int vmid, int nr);
int m3_bind_backup_T(int vmid, int nr, long timeout_ms);

/*
 * Moves the endpoint of the caller to another node: from its home to the node of its backup, or
 * back. A program waits there in m3_bind_backup, and gets the address.
 *
 * The endpoint of the caller has ended afterwards, as after mnx_unbind. Requests that it has taken
 * and not answered end with EMOLSRCDIED. Callers of a third node wait for the new endpoint. Callers
 * of the two nodes of the move get EMOLMIGRATE: nothing was taken, and they call again. The state
 * of the program does not move.
 *
 * The proxies of both nodes may be stopped: the call takes 3 seconds at most while the daemon runs.
 *
 *   timeout_ms  milliseconds to wait. The daemon has 1.5 seconds more to say what became of the
 *               move.
 *
 * Returns 0, or a code; nothing has moved then, and nothing moves later:
 *   EMOLNONODE    the registry names no backup of the slot
 *   EMOLNOTCONN   the other node cannot be reached, m3-proxy here does not answer within 3 seconds,
 *                 or the daemon has died meanwhile
 *   EMOLNOPROXY   no m3-proxy runs on this node
 *   EMOLAGAIN     m3-proxy does not know the endpoint yet
 *   EMOLTIMEDOUT  the limit is over
 *   EMOLINVAL     the limit is negative and not M3_TIMEOUT_FOREVER
 * Other codes:
 *   EMOLNOTBIND   the caller is not bound; or its endpoint has ended meanwhile, perhaps by the
 *                 move, and the daemon has died before it said so
 *   EMOLUNKNOWN   the daemon is silent. If the endpoint has moved, its next call gets EMOLNOTBIND
 */
int m3_migrate(void);
int m3_migrate_T(long timeout_ms);

/*
 * Binds another process of the same owner on this node to a slot.
 *
 * That process has to agree: it waits in mnx_wait4bind, and the call wakes it, or it is a child
 * of the caller and gets its endpoint with its next call.
 *
 *   vmid  number of the VM
 *   pid   process id on this node
 *   nr    slot, as for mnx_bind
 *
 * Returns as mnx_bind, or:
 *   EMOLBADPROC     no such process
 *   EMOLPRIVILEGES  the process has another owner, or did not agree
 * Blocks until the daemon answers.
 */
int mnx_lclbind(int vmid, int pid, int nr);

/* True if a result of mnx_bind, mnx_tbind or mnx_lclbind for slot nr is its endpoint. */
#define M3_BOUND(result, nr) \
  ((result) >= -M3_NR_TASKS && M3_ENDPOINT_P(result) == (nr) && (result) != M3_ANY && \
   (result) != M3_NONE && (result) != M3_SELF)

/*
 * Ends a binding.
 *
 * The caller's own endpoint ends as at death: blocked partners get EMOLDSTDIED or EMOLSRCDIED.
 * Another process of the same owner gets SIGPIPE, and its blocked call returns EMOLSHUTDOWN. The
 * call then waits until the other process has left. The caller need not be bound for this.
 *
 *   vmid        number of the VM
 *   ep          endpoint to unbind
 *   timeout_ms  milliseconds to wait for the other process
 *
 * Returns 0, or:
 *   EMOLDRVSINIT    the node is not initialised
 *   EMOLNOTREADY    another thread is inside a call on this endpoint
 *   EMOLBADVMID     vmid is out of range
 *   EMOLVMNOTRUN    the VM is not running
 *   EMOLRANGE       the slot of ep is out of range
 *   EMOLNOTBIND     the slot is free
 *   EMOLENDPOINT    the slot has another generation
 *   EMOLPRIVILEGES  the endpoint belongs to another user
 *   EMOLTIMEDOUT    the limit is over
 *   EMOLINTR        a signal ended the wait
 *   EMOLINVAL       the limit is negative and not M3_TIMEOUT_FOREVER
 */
int mnx_unbind(int vmid, int ep);
int mnx_unbind_T(int vmid, int ep, long timeout_ms);

/* ---- Look up and wait -------------------------------------------------- */

/*
 * Looks up the endpoint of a process or thread in the caller's VM.
 *
 *   pid  process or thread id; the caller's own is allowed
 *
 * Returns the endpoint, or a code below EMOLERRCODE:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller, or that process, is not bound
 *   EMOLBADPROC   no such process
 * EMOLNOTREADY (another thread is inside a call on this endpoint) is the one code above it.
 * Blocks until the daemon answers.
 */
int mnx_getep(int pid);

/*
 * Waits until the calling process is bound, by another thread or by mnx_lclbind.
 *
 *   timeout_ms  milliseconds to wait
 *
 * Returns the endpoint, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLTIMEDOUT  the limit is over, also with a limit of 0
 *   EMOLINTR      a signal ended the wait
 *   EMOLINVAL     the limit is negative and not M3_TIMEOUT_FOREVER
 */
int mnx_wait4bind(void);
int mnx_wait4bind_T(long timeout_ms);

/*
 * Waits until an endpoint of the caller's VM is bound.
 *
 *   ep          endpoint; for a user slot that was never bound, M3_ENDPOINT(1, nr)
 *   timeout_ms  milliseconds to wait
 *
 * Returns ep, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLRANGE     the slot of ep is out of range
 *   EMOLENDPOINT  ep is the caller's own, or its generation has gone
 *   EMOLTIMEDOUT  the limit is over, also with a limit of 0
 *   EMOLINTR      a signal ended the wait
 *   EMOLSHUTDOWN  another process unbound the caller meanwhile
 *   EMOLINVAL     the limit is negative and not M3_TIMEOUT_FOREVER
 *
 *   int server = mnx_wait4bindep_T(SERVER_NR, 5000);
 */
int mnx_wait4bindep(int ep);
int mnx_wait4bindep_T(int ep, long timeout_ms);

/*
 * Waits until an endpoint of the caller's VM is no longer bound.
 *
 *   ep          endpoint
 *   timeout_ms  milliseconds to wait
 *
 * Returns 0, at once if the endpoint has gone already, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 *   EMOLRANGE     the slot of ep is out of range
 *   EMOLENDPOINT  ep is the caller's own
 *   EMOLTIMEDOUT  the limit is over, also with a limit of 0
 *   EMOLINTR      a signal ended the wait
 *   EMOLSHUTDOWN  another process unbound the caller meanwhile
 *   EMOLINVAL     the limit is negative and not M3_TIMEOUT_FOREVER
 */
int mnx_wait4unbind(int ep);
int mnx_wait4unbind_T(int ep, long timeout_ms);

/* ---- Describe and restrict --------------------------------------------- */

/*
 * Reads the state of one slot of a VM.
 *
 *   vmid  number of the VM; M3_PROC_NO_PID stands for the VM of the caller
 *   nr    slot, not an endpoint
 *   info  receives the state; p_rts_flags of a free slot is M3_SLOT_FREE, and of an endpoint of
 *         another node M3_REMOTE, with that node in p_nodeid
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADVMID       vmid is out of range, or is M3_PROC_NO_PID and the caller is not bound
 *   EMOLVMNOTRUN      the VM is not running
 *   EMOLRANGE         the slot is outside the limits of the VM
 *   EMOLPRIVILEGES    vm_mode does not let the caller read
 *   EMOLADDRNOTAVAIL  info cannot be written
 * Blocks until the daemon answers.
 */
int mnx_getprocinfo(int vmid, int nr, m3_proc_usr_t *info);

/*
 * Prints the bound slots of a VM to standard error.
 *
 *   vmid  number of the VM; M3_PROC_NO_PID stands for the VM of the caller
 *
 * Returns 0, or EMOLDRVSINIT, EMOLBADVMID, EMOLVMNOTRUN or EMOLPRIVILEGES, as mnx_getprocinfo.
 * Blocks until the daemon answers.
 */
int mnx_proc_dump(int vmid);

/*
 * Replaces the privileges of an endpoint. Only the owner of the VM may do so.
 *
 *   vmid  number of the VM
 *   ep    endpoint
 *   priv  level, allowed calls and allowed partners; s_id is ignored
 *
 * A call that is not allowed returns EMOLTRAPDENIED, a partner that is not allowed EMOLCALLDENIED.
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADVMID       vmid is out of range
 *   EMOLVMNOTRUN      the VM is not running
 *   EMOLRANGE         the slot of ep is out of range
 *   EMOLENDPOINT      the slot has another generation
 *   EMOLDSTDIED       the slot is free
 *   EMOLBADVALUE      the level is not M3_USER_PRIV to M3_PROXY_PRIV
 *   EMOLPRIVILEGES    the caller does not own the VM
 *   EMOLADDRNOTAVAIL  priv cannot be read
 * Blocks until the daemon answers.
 */
int mnx_setpriv(int vmid, int ep, m3_priv_usr_t *priv);

/*
 * Reads the privileges of an endpoint.
 *
 *   vmid  number of the VM
 *   ep    endpoint
 *   priv  receives the privileges
 *
 * Returns 0 or a code, as mnx_setpriv (without EMOLBADVALUE).
 * Blocks until the daemon answers.
 */
int mnx_getpriv(int vmid, int ep, m3_priv_usr_t *priv);

/* ---- Names ------------------------------------------------------------- */

/*
 * Gives the caller's endpoint a name that is unique in its VM.
 *
 * An endpoint may have several names. The names end with the endpoint.
 *
 *   name  1 to M3_NAME_MAX bytes of UTF-8, and a zero
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLNOTBIND       the caller is not bound
 *   EMOLNOTREADY      another thread is inside a call on this endpoint
 *   EMOLRSCBUSY       an endpoint, perhaps the caller's, has this name
 *   EMOLNAMESIZE      the name is longer than M3_NAME_MAX bytes
 *   EMOLINVAL         the name is empty or is not UTF-8
 *   EMOLADDRNOTAVAIL  name cannot be read
 * Blocks until the daemon answers.
 */
int m3_name_attach(const char *name);

/*
 * Looks up the endpoint that has a name in the caller's VM.
 *
 *   name  as for m3_name_attach
 *
 * Returns the endpoint, or a code of m3_name_attach (without EMOLRSCBUSY), or:
 *   EMOLNONODE  no endpoint has this name
 * Blocks until the daemon answers.
 */
int m3_name_locate(const char *name);

/*
 * Waits until an endpoint of the caller's VM has a name.
 *
 *   name        as for m3_name_attach
 *   timeout_ms  milliseconds to wait
 *
 * Returns the endpoint, or a code of m3_name_attach (without EMOLRSCBUSY), or:
 *   EMOLTIMEDOUT  the limit is over, also with a limit of 0
 *   EMOLINTR      a signal ended the wait
 *   EMOLINVAL     the limit is negative and not M3_TIMEOUT_FOREVER
 */
int m3_wait4name(const char *name);
int m3_wait4name_T(const char *name, long timeout_ms);

/* ---- Limits ------------------------------------------------------------ */

/*
 * Sets the longest long part that the calling endpoint takes, of messages and of answers.
 *
 *   bytes  M3_RECEIVE_LIMIT for a new endpoint; less than M3_LONG_MAX counts as M3_LONG_MAX, more
 *          than M3_LARGE_MAX as M3_LARGE_MAX
 *
 * A longer one is EMOLMSGSIZE for its sender. The calling endpoint sees nothing of it, and a client
 * still waits for an answer. Blocks have no limit.
 *
 * Returns 0, or:
 *   EMOLDRVSINIT  the node is not initialised
 *   EMOLNOTBIND   the caller is not bound
 *   EMOLNOTREADY  another thread is inside a call on this endpoint
 * Never blocks.
 */
int m3_set_receive_limit(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_ENDPOINT_H */
