/*
 * Numbers of m3ipc: endpoints, well-known processes, limits, time limits, states.
 *
 * An endpoint is a slot number and a generation in one integer:
 *
 *     endpoint = generation * G + slot        G = M3_NR_TASKS + 35535
 *
 * Slots below 0 are tasks, slots 0 to 28 servers, slots from 29 user processes. The generation of
 * tasks and servers is always 0, so their endpoint is their slot. The generation of a user slot
 * rises at each bind. The endpoint of a process that has gone therefore never means its successor.
 */
#ifndef M3IPC_NUMBERS_H
#define M3IPC_NUMBERS_H

#include <limits.h>

/* Endpoints that no process has. */
#define M3_ANY  31438 /* receive: from every sender; grant: to every member */
#define M3_NONE 27342 /* no process */
#define M3_SELF 35534 /* vcopy: the caller */

/* Time limits, in milliseconds. */
#define M3_TIMEOUT_NOWAIT  0    /* do not wait */
#define M3_TIMEOUT_FOREVER (-1) /* wait without a limit */

/* Default limits of a node; mnx_drvs_init may set others. */
#define M3_NR_VMS         32          /* VMs of the node */
#define M3_NR_NODES       32          /* nodes of the system */
#define M3_NR_PROCS       221         /* process slots of a VM: 0 to 220 */
#define M3_NR_FIXED_TASKS 3           /* tasks other than the system tasks */
#define M3_NR_SYSTASKS    M3_NR_NODES /* one system task for each node */
#define M3_NR_TASKS       35          /* task slots of a VM: -35 to -1 */
#define M3_NR_SERVERS     29          /* server slots: 0 to 28 */
#define M3_NR_SYS_PROCS   64          /* tasks and servers */
#define M3_NR_USR_PROCS   (M3_NR_PROCS - M3_NR_SERVERS)

/* The largest limits that mnx_drvs_init accepts. */
#define M3_VMS_MAX   1024
#define M3_NODES_MAX 1024
#define M3_PROCS_MAX 35534

/* Sizes, in bytes. */
#define M3_MAXCOPYBUF  65536                /* piece of a block copy */
#define M3_MAXCOPYLEN  (64 * M3_MAXCOPYBUF) /* block copy: 4 MiB by default */
#define M3_LONG_MAX    1792                 /* long part of a message that a link holds */
#define M3_LARGE_MAX   (1u << 30)           /* long part of any message */
#define M3_RECEIVE_LIMIT (16u << 20)        /* long part that an endpoint takes by default */
#define M3_PULSES_MAX  16                   /* pulses of a sender that wait for a receiver */
#define M3_PRIORITY_MAX 99                  /* priority of an endpoint */
#define M3_TIMERS_MAX  64                   /* timers of an endpoint */
#define M3_NAME_MAX    63                   /* name of an endpoint, without its zero */
#define M3_MAXVMNAME   16                   /* name of a VM, with its zero */
#define M3_MAXPROCNAME 16                   /* name of a program, with its zero */
#define M3_MAXNODENAME 16                   /* name of a node, with its zero */

/* Flags of m3_area_create, its largest set, and the flag of m3_block_alloc. */
#define M3_AREA_OWNER_WRITES 1u  /* only the creator writes and allocates */
#define M3_AREA_HUGE         2u  /* huge pages of the pool of the system */
#define M3_AREA_PREFAULT     4u  /* map the pages when memory is taken */
#define M3_AREA_TRANSPARENT  8u  /* huge pages where the kernel makes them */
#define M3_AREA_SET_MAX      255 /* other endpoints of a set */
#define M3_BLOCK_LONG        1u  /* long-lived: from the back of the area */

/* Numbers with a special meaning. */
#define M3_LOCALNODE   (-1) /* as a node id: the configured number */
#define M3_PROC_NO_PID (-1) /* no process; as a VM id: the VM of the caller */

/* Endpoint arithmetic: g is a generation, p a slot, e an endpoint. */
#define M3_MAX_MAGIC_PROC           M3_SELF
#define M3_ENDPOINT_GENERATION_SIZE (M3_NR_TASKS + M3_MAX_MAGIC_PROC + 1)
#define M3_ENDPOINT_MAX_GENERATION  (INT_MAX / M3_ENDPOINT_GENERATION_SIZE - 1)
#define M3_ENDPOINT(g, p)           ((g) * M3_ENDPOINT_GENERATION_SIZE + (p))
#define M3_ENDPOINT_G(e)            (((e) + M3_NR_TASKS) / M3_ENDPOINT_GENERATION_SIZE)
#define M3_ENDPOINT_P(e) \
  (((e) + M3_NR_TASKS) % M3_ENDPOINT_GENERATION_SIZE - M3_NR_TASKS)

/* Slots of tasks. */
#define M3_KERNEL     (-1)              /* also the source of hardware notifications */
#define M3_HARDWARE   M3_KERNEL
#define M3_SYSTEM     (-2)              /* system task of node 0 */
#define M3_SYSTASK(n) (M3_SYSTEM - (n)) /* system task of node n */
#define M3_SLOTS      (M3_SYSTEM - M3_NR_SYSTASKS)
#define M3_CLOCK      (M3_SLOTS - 1)

/* Slots of servers. */
#define M3_PM_PROC_NR    0             /* processes */
#define M3_FS_PROC_NR    1             /* files */
#define M3_RS_PROC_NR    2             /* restarts */
#define M3_RDISK_PROC_NR 3             /* replicated disk */
#define M3_LOG_PROC_NR   4             /* log */
#define M3_TTY_PROC_NR   5             /* terminals */
#define M3_ETH_PROC_NR   6             /* Ethernet */
#define M3_DS_PROC_NR    7             /* data store */
#define M3_IS_PROC_NR    8             /* information */
#define M3_INET_PROC_NR  9             /* Internet */
#define M3_DEMON_PROC_NR 10            /* background commands */
#define M3_NBD_PROC_NR   11            /* network block device */
#define M3_RDISK_MASTER  12
#define M3_RDISK_SLAVE   13
#define M3_INIT_PROC_NR  14            /* first user program */
#define M3_FIRST_USER_NR M3_NR_SERVERS /* first slot whose generation rises */

/* Notifications: m_type is this number, or-ed with the slot of the source. */
#define M3_NOTIFY_MESSAGE  0x1000
#define M3_NOTIFY_FROM(nr) (M3_NOTIFY_MESSAGE | (nr))
#define M3_PROC_EVENT      M3_NOTIFY_FROM(M3_PM_PROC_NR)
#define M3_SYN_ALARM       M3_NOTIFY_FROM(M3_CLOCK)
#define M3_SYS_SIG         M3_NOTIFY_FROM(M3_SYSTEM)
#define M3_HARD_INT        M3_NOTIFY_FROM(M3_HARDWARE)

/* Bit numbers of p_rts_flags. */
#define M3_PROC_RUNNING   0 /* value of p_rts_flags: the process waits for nothing */
#define M3_BIT_SLOT_FREE  0
#define M3_BIT_NO_MAP     1
#define M3_BIT_SENDING    2
#define M3_BIT_RECEIVING  3
#define M3_BIT_ONCOPY     10
#define M3_BIT_MIGRATE    11
#define M3_BIT_REMOTE     12
#define M3_BIT_RMTOPER    13
#define M3_BIT_WAITMIGR   15
#define M3_BIT_WAITUNBIND 17
#define M3_BIT_WAITBIND   18

/* Bits of p_rts_flags: the state of a slot, and the reason of a wait. */
enum m3_proc_status {
  M3_SLOT_FREE = 1 << M3_BIT_SLOT_FREE,   /* no process is bound here */
  M3_NO_MAP = 1 << M3_BIT_NO_MAP,         /* bound by mnx_lclbind, no call made yet */
  M3_SENDING = 1 << M3_BIT_SENDING,       /* in send, or in a sendrec that is not yet taken */
  M3_RECEIVING = 1 << M3_BIT_RECEIVING,   /* in receive or sendrec; alone in a taken sendrec */
  M3_ONCOPY = 1 << M3_BIT_ONCOPY,         /* party of a block copy */
  M3_MIGRATING = 1 << M3_BIT_MIGRATE,     /* moves to another node */
  M3_REMOTE = 1 << M3_BIT_REMOTE,         /* lives on another node */
  M3_RMTOPER = 1 << M3_BIT_RMTOPER,       /* stands in for a remote operation */
  M3_WAITMIGR = 1 << M3_BIT_WAITMIGR,     /* waits for the move of another process */
  M3_WAITUNBIND = 1 << M3_BIT_WAITUNBIND, /* waits for the end of another process */
  M3_WAITBIND = 1 << M3_BIT_WAITBIND      /* waits for a bind */
};

/* Values of vm_flags. */
#define M3_VM_RUNNING  0
#define M3_BIT_VM_FREE 1
#define M3_VM_FREE     (1 << M3_BIT_VM_FREE)

/* Bits of s_trap_mask: the calls that a process may make. */
#define M3_TRAP_SEND    (1 << 1)
#define M3_TRAP_RECEIVE (1 << 2)
#define M3_TRAP_NOTIFY  (1 << 4)
#define M3_TRAP_SENDREC (1 << 5)
#define M3_TRAP_RCVRQST (1 << 6)
#define M3_TRAP_REPLY   (1 << 7) /* also relay */
#define M3_TRAP_VCOPY   (1 << 15)

#endif /* M3IPC_NUMBERS_H */
