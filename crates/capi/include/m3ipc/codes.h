/*
 * Codes of m3ipc: the results of calls that fail.
 *
 * A code is a negative number. A call that returns an endpoint (mnx_bind, mnx_getep, mnx_wait4bind)
 * may return a small negative endpoint, because tasks have slots below 0. Compare such a result
 * with EMOLERRCODE, never with 0. The manual page of the call names its few codes above
 * EMOLERRCODE. m3ipc never uses a number again and appends new codes.
 */
#ifndef M3IPC_CODES_H
#define M3IPC_CODES_H

/* Success. */
#define M3_OK 0

/* Codes with the numbers of the system errors of Minix. */
#define EMOLPERM           (-1)    /* operation not permitted */
#define EMOLSRCH           (-3)    /* no such process */
#define EMOLINTR           (-4)    /* a signal ended the call */
#define EMOLAGAIN          (-11)   /* the call would block */
#define EMOLNOMEM          (-12)   /* out of memory */
#define EMOLFAULT          (-14)   /* bad address */
#define EMOLBUSY           (-16)   /* busy */
#define EMOLINVAL          (-22)   /* bad argument */
#define EMOLRANGE          (-34)   /* number out of range */
#define EMOLNOSYS          (-38)   /* not in this release, or not on this system */
#define EMOLTIMEDOUT       (-61)   /* the time limit is over */
#define EMOLNOTCONN        (-64)   /* no connection */
#define EMOLSHUTDOWN       (-65)   /* another process unbound the caller during the call */
#define EMOLADDRNOTAVAIL   (-71)   /* bad buffer address */
#define EMOLMSGSIZE        (-73)   /* message too long */

/* Message passing, as in Minix. */
#define EMOLLOCKED         (-101)  /* the call would close a circle of waiting processes */
#define EMOLBADCALL        (-102)  /* bad call number */
#define EMOLBADSRCDST      (-103)  /* bad source or destination */
#define EMOLCALLDENIED     (-104)  /* privileges do not allow this partner */
#define EMOLDEADSRCDST     (-105)  /* no process is bound at the destination */
#define EMOLNOTREADY       (-106)  /* another thread is in a call on this endpoint */
#define EMOLBADREQUEST     (-107)  /* bad request */
#define EMOLSRCDIED        (-108)  /* the source died */
#define EMOLDSTDIED        (-109)  /* the destination died */
#define EMOLTRAPDENIED     (-110)  /* privileges do not allow this call */
#define EMOLDONTREPLY      (-201)  /* no reply is to be sent */

/* The node, its VMs and its processes. */
#define EMOLERRCODE        (-300)  /* limit: every result below it is a code */
#define EMOLBADNODEID      (-301)  /* node id out of range */
#define EMOLBADVMID        (-302)  /* VM id out of range */
#define EMOLVMNOTRUN       (-303)  /* the VM is not running */
#define EMOLBADPROC        (-304)  /* no such process on this node */
#define EMOLBADPID         (-305)  /* bad process id */
#define EMOLENDPOINT       (-306)  /* the endpoint is of another generation */
#define EMOLNOPROXY        (-307)  /* no proxy */
#define EMOLRMTPROC        (-308)  /* the process is remote */
#define EMOLLCLPROC        (-309)  /* the process is local */
#define EMOLNOTBIND        (-310)  /* not bound */
#define EMOLNODEBUSY       (-315)  /* node busy */
#define EMOLNONODE         (-316)  /* no such node or name */
#define EMOLDRVSBUSY       (-317)  /* the node is initialised already */
#define EMOLDRVSINIT       (-318)  /* the node is not initialised */
#define EMOLNOVMNODE       (-319)  /* the VM does not span that node */
#define EMOLPROCRUN        (-320)  /* the process was running; the wakeup is remembered */
#define EMOLNOMSG          (-321)  /* no message */
#define EMOLVMRUN          (-323)  /* the VM is running */
#define EMOLPROCSTS        (-324)  /* the process is in another state than the call needs */
#define EMOLNODEFREE       (-325)  /* the node is free */
#define EMOLVMNODE         (-326)  /* the VM spans that node already */
#define EMOLBADPROXY       (-327)  /* bad proxy */
#define EMOLONCOPY         (-328)  /* the process is in a copy */
#define EMOLENQUEUED       (-329)  /* the message is queued */
#define EMOLOVERRUN        (-330)  /* overrun */
#define EMOLBADOWNER       (-331)  /* bad owner */
#define EMOLMIGRATE        (-332)  /* the process migrates */
#define EMOLPROXYFREE      (-333)  /* the proxy is free */
#define EMOLGRPLEADER      (-334)  /* the thread's process is not bound */
#define EMOLPRIVILEGES     (-335)  /* not allowed */
#define EMOLBINDTYPE       (-336)  /* bad kind of bind */
#define EMOLSLOTUSED       (-337)  /* the slot is taken */
#define EMOLBADRANGE       (-338)  /* parameter out of range */
#define EMOLBADVALUE       (-339)  /* bad parameter value */
#define EMOLBADDIR         (-340)  /* bad directory */
#define EMOLBADFILE        (-341)  /* bad file */
#define EMOLRSCBUSY        (-342)  /* the id or name is in use */
#define EMOLNAMESIZE       (-343)  /* the name is too long */
#define EMOLALLOCMEM       (-344)  /* no room in the area */
#define EMOLPROXYID        (-345)  /* bad proxy id */
#define EMOLREPLPROC       (-346)  /* the process is a replica */
#define EMOLALIGN          (-347)  /* bad alignment */
#define EMOLWOKENUP        (-348)  /* woken by wakeup */

/* Additions of m3ipc. */
#define EMOLPEERBROKE      (-500)  /* the peer broke the link's rules; the link is poisoned */
#define EMOLUNKNOWN        (-501)  /* the outcome is unknown: a node or daemon is lost or silent */
#define EMOLVERSION        (-502)  /* node daemon and library do not match */
#define EMOLNOPAYLOAD      (-503)  /* the payload of a message could not be handed over */
#define EMOLORPHANED       (-504)  /* the daemon of the area was killed */
#define EMOLANSWERLOST     (-505)  /* the request was taken; the other node or its answer is lost */

#endif /* M3IPC_CODES_H */
