/*
 * Numbers of m3ipc: endpoints, well-known processes, limits, time limits.
 *
 * An endpoint is a slot number and a generation in one integer:
 *
 *     endpoint = generation * G + slot        G = NR_TASKS + 35535
 *
 * Slots below 0 are tasks, slots 0 to 28 servers, slots from 29 user processes.
 * The generation of tasks and servers is always 0, so their endpoint is their
 * slot. The generation of a user slot rises at each bind: the endpoint of one
 * that has gone never means its successor.
 */
#ifndef M3IPC_NUMBERS_H
#define M3IPC_NUMBERS_H

#include <limits.h>

/* Endpoints that nobody has. */
#define ANY  31438 /* receive: from whomever */
#define NONE 27342 /* nobody */
#define SELF 35534 /* vcopy: the caller */

/* Time limits, in milliseconds. */
#define TIMEOUT_NOWAIT  0    /* do not wait */
#define TIMEOUT_FOREVER (-1) /* wait without a limit */

/* Default limits of a node; drvs_init may set others. */
#define NR_VMS          32  /* VMs of the node */
#define NR_DCS          NR_VMS
#define NR_NODES        32  /* nodes of the system */
#define NR_PROCS        221 /* process slots of a VM: 0 to 220 */
#define NR_FIXED_TASKS  3   /* tasks apart from the system tasks */
#define NR_SYSTASKS     NR_NODES /* one system task for each node */
#define NR_TASKS        35  /* task slots of a VM: -35 to -1 */
#define NR_SERVERS      29  /* server slots: 0 to 28 */
#define NR_SYS_PROCS    64  /* tasks and servers */
#define NR_USR_PROCS    (NR_PROCS - NR_SERVERS)

/* The most that drvs_init accepts. */
#define M3_VMS_MAX   1024
#define M3_NODES_MAX 1024
#define M3_PROCS_MAX 35534

#define MAXCOPYBUF   65536             /* bytes of a block copied in one piece */
#define MAXCOPYLEN   (64 * MAXCOPYBUF) /* bytes of one copy: 4 MiB by default */
#define M3_LONG_MAX  1792              /* bytes of a long message that a link holds besides its 48 */
#define M3_LARGE_MAX (1u << 30)        /* bytes of any long message besides its 48 */
#define M3_AREA_OWNER_WRITES 1u        /* flags of an area */
#define M3_AREA_HUGE         2u
#define M3_AREA_PREFAULT     4u
#define M3_AREA_TRANSPARENT  8u
#define M3_AREA_SET_MAX      255
#define M3_BLOCK_LONG        1u        /* flag of a block: it lives long */
#define M3_NAME_MAX  63                /* bytes of an endpoint's name */

/* Names of VMs, processes and nodes: 15 bytes and a zero. */
#define MAXVMNAME   16
#define MAXDCNAME   MAXVMNAME
#define MAXPROCNAME 16
#define MAXNODENAME 16

#define LOCALNODE   (-1) /* node id: this node */
#define PROC_NO_PID (-1) /* no process; as a VM id: the caller's VM */

/* Endpoint arithmetic. */
#define _MAX_MAGIC_PROC           SELF
#define _ENDPOINT_GENERATION_SIZE (NR_TASKS + _MAX_MAGIC_PROC + 1)
#define _ENDPOINT_MAX_GENERATION  (INT_MAX / _ENDPOINT_GENERATION_SIZE - 1)
#define _ENDPOINT(g, p)           ((g) * _ENDPOINT_GENERATION_SIZE + (p))
#define _ENDPOINT_G(e)            (((e) + NR_TASKS) / _ENDPOINT_GENERATION_SIZE)
#define _ENDPOINT_P(e)            (((e) + NR_TASKS) % _ENDPOINT_GENERATION_SIZE - NR_TASKS)

/* Tasks. */
#define KERNEL     (-1)     /* also the source of hardware notifications */
#define HARDWARE   KERNEL
#define SYSTEM     (-2)     /* system task of node 0 */
#define SYSTASK(n) (SYSTEM - (n)) /* system task of node n */
#define SLOTS      (SYSTEM - NR_SYSTASKS)
#define CLOCK      (SLOTS - 1)

/* Servers. */
#define PM_PROC_NR    0  /* processes */
#define FS_PROC_NR    1  /* files */
#define RS_PROC_NR    2  /* restarts */
#define RDISK_PROC_NR 3  /* replicated disk */
#define LOG_PROC_NR   4  /* log */
#define TTY_PROC_NR   5  /* terminals */
#define ETH_PROC_NR   6  /* Ethernet */
#define DS_PROC_NR    7  /* data store */
#define IS_PROC_NR    8  /* information */
#define INET_PROC_NR  9  /* Internet */
#define DEMON_PROC_NR 10 /* background commands */
#define NBD_PROC_NR   11 /* network block device */
#define RDISK_MASTER  12
#define RDISK_SLAVE   13
#define INIT_PROC_NR  14 /* first user program */
#define FIRST_USER_NR NR_SERVERS /* first slot whose generation rises */

/* Notifications: the type is this, or-ed with the slot of the source. */
#define NOTIFY_MESSAGE   0x1000
#define NOTIFY_FROM(nr)  (NOTIFY_MESSAGE | (nr))
#define PROC_EVENT       NOTIFY_FROM(PM_PROC_NR)
#define SYN_ALARM        NOTIFY_FROM(CLOCK)
#define SYS_SIG          NOTIFY_FROM(SYSTEM)
#define HARD_INT         NOTIFY_FROM(HARDWARE)

/* Bits of p_rts_flags: what a process waits for; 0 is running. */
#define PROC_RUNNING   0
#define BIT_SLOT_FREE  0
#define BIT_NO_MAP     1
#define BIT_SENDING    2
#define BIT_RECEIVING  3
#define BIT_ONCOPY     10
#define BIT_MIGRATE    11
#define BIT_REMOTE     12
#define BIT_RMTOPER    13
#define BIT_WAITMIGR   15
#define BIT_WAITUNBIND 17
#define BIT_WAITBIND   18

enum proc_status {
  SLOT_FREE = 1 << BIT_SLOT_FREE,   /* nobody is bound here */
  NO_MAP = 1 << BIT_NO_MAP,         /* bound, not ready yet */
  SENDING = 1 << BIT_SENDING,       /* in send, or in the first half of sendrec */
  RECEIVING = 1 << BIT_RECEIVING,   /* in receive, or in sendrec: alone in its second half */
  ONCOPY = 1 << BIT_ONCOPY,         /* party of a block copy */
  MIGRATING = 1 << BIT_MIGRATE,     /* moves to another node */
  REMOTE = 1 << BIT_REMOTE,         /* lives on another node */
  RMTOPER = 1 << BIT_RMTOPER,       /* stands in for a remote operation */
  WAITMIGR = 1 << BIT_WAITMIGR,     /* waits for another's move */
  WAITUNBIND = 1 << BIT_WAITUNBIND, /* waits for another's end */
  WAITBIND = 1 << BIT_WAITBIND      /* waits for a bind */
};

/* Values of vm_flags. */
#define VM_RUNNING  0
#define BIT_VM_FREE 1
#define VM_FREE     (1 << BIT_VM_FREE)
#define DC_RUNNING  VM_RUNNING
#define BIT_DC_FREE BIT_VM_FREE
#define DC_FREE     VM_FREE

/* Bits of priv_trap_mask: the calls that a process may make. */
#define M3_TRAP_SEND    (1 << 1)
#define M3_TRAP_RECEIVE (1 << 2)
#define M3_TRAP_NOTIFY  (1 << 4)
#define M3_TRAP_SENDREC (1 << 5)
#define M3_TRAP_RCVRQST (1 << 6)
#define M3_TRAP_REPLY   (1 << 7) /* also relay */
#define M3_TRAP_VCOPY   (1 << 15)

#endif /* M3IPC_NUMBERS_H */
