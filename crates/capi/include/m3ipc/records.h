/*
 * Records of m3ipc: the node, its VMs, their processes, privileges, loans and peers.
 *
 * "out:" marks a field that only the library writes. The later words (dvs, dc) for the records of
 * the node and of a VM are in m3ipc/later.h, with the same layout.
 */
#ifndef M3IPC_RECORDS_H
#define M3IPC_RECORDS_H

#include "message.h"
#include "numbers.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define M3_EXTENSION __extension__ /* unnamed unions in C99 */
#else
#define M3_EXTENSION
#endif

/* A set of CPUs: bit n is CPU n. It has the size of cpu_set_t of the C library. */
typedef struct { unsigned long bits[16]; } m3_cpumask_t;

/* ---- The node ---------------------------------------------------------- */

/* Bits of d_flags. */
#define M3_DRVS_USERMODE    (1 << 2) /* the node runs in user space: always set */
#define M3_DRVS_INITIALIZED (1 << 8) /* the node runs */

/*
 * Parameters of the node, for mnx_drvs_init and mnx_getdrvsinfo.
 *
 * In mnx_drvs_init a 0 takes the value of the configuration file, then of the environment, then the
 * default. A count out of its range is EMOLBADRANGE, a bad copy limit EMOLBADVALUE.
 */
struct m3_drvs_usr {
  int d_nr_vms;           /* VMs: 1 to M3_VMS_MAX */
  int d_nr_nodes;         /* nodes: 1 to M3_NODES_MAX */
  int d_nr_procs;         /* process slots of a VM: 1 to M3_PROCS_MAX */
  int d_nr_tasks;         /* task slots of a VM: 1 to M3_NR_TASKS */
  int d_nr_sysprocs;      /* tasks and servers: above d_nr_tasks, below d_nr_tasks + d_nr_procs;
                             out: d_nr_tasks + M3_NR_SERVERS, which is fixed */
  int d_max_copybuf;      /* at most d_max_copylen, else ignored;
                             out: piece of a copy through a buffer, in bytes */
  int d_max_copylen;      /* one copy, in bytes: a longer mnx_vcopy returns EMOLRANGE;
                             0 or out INT_MAX: no limit */
  unsigned long d_dbglvl; /* trace level bits, ignored; out: 0 */
  int d_version;          /* out: major version of the node daemon */
  int d_subver;           /* out: minor version of the node daemon */
  unsigned long d_flags;  /* out: M3_DRVS_... */
  int d_size_proc;        /* out: size of a process record of the daemon, in bytes */
  char d_name[M3_MAXPROCNAME]; /* name of the system, zero-terminated */
};
typedef struct m3_drvs_usr m3_drvs_usr_t;

#define M3_DRVS_USR_FORMAT \
  "d_name=%.16s d_nr_vms=%d d_nr_nodes=%d d_nr_procs=%d d_nr_tasks=%d d_nr_sysprocs=%d\n"
#define M3_DRVS_USR_FIELDS(p) (p)->d_name, (p)->d_nr_vms, (p)->d_nr_nodes, (p)->d_nr_procs, \
  (p)->d_nr_tasks, (p)->d_nr_sysprocs
#define M3_DRVS_MAX_FORMAT "d_max_copybuf=%d d_max_copylen=%d\n"
#define M3_DRVS_MAX_FIELDS(p) (p)->d_max_copybuf, (p)->d_max_copylen
#define M3_DRVS_VER_FORMAT "d_dbglvl=%lX d_version=%d.%d d_flags=%lX d_size_proc=%d\n"
#define M3_DRVS_VER_FIELDS(p) (p)->d_dbglvl, (p)->d_version, (p)->d_subver, (p)->d_flags, \
  (p)->d_size_proc

/* ---- A VM -------------------------------------------------------------- */

/*
 * Memory that mnx_vcopy may copy among members of one user. Among users, only lent and granted
 * memory can be copied.
 */
#define M3_COPY_OPEN    0 /* all memory of a party */
#define M3_COPY_GRANTED 1 /* memory that the party has lent or granted */

/* When a VM ends without mnx_vm_end. It ends as by that call. */
#define M3_VM_UNTIL_ENDED  0 /* never */
#define M3_VM_WITH_CREATOR 1 /* with the process that made it, however that process ends */
#define M3_VM_WITH_MEMBERS 2 /* with its last member; a VM that nobody joined yet goes on */

/*
 * Parameters of a VM, for mnx_vm_init, m3_vm_open_or_create and mnx_getvminfo.
 *
 * In mnx_vm_init a limit of 0 takes the limit of the node. The fields from vm_grace_ms on are
 * additions of m3ipc; 0 is a valid value for each of them.
 */
struct m3_vm_usr {
  int vm_vmid;             /* number: 0 to d_nr_vms - 1 */
  int vm_flags;            /* out: M3_VM_RUNNING or M3_VM_FREE */
  int vm_nr_procs;         /* process slots */
  int vm_nr_tasks;         /* task slots */
  int vm_nr_sysprocs;      /* tasks and servers */
  int vm_nr_nodes;         /* nodes that the VM may span */
  unsigned long vm_nodes;  /* set of nodes that the VM spans; 0: this node */
  int vm_warn2proc;        /* M3_NONE, or 0 with a vm_warnmsg of 0: use m3_watch; out: M3_NONE */
  int vm_warnmsg;          /* ignored; out: 0 */
  int vm_pid;              /* out: process that made the VM */
  char vm_name[M3_MAXVMNAME]; /* unique on the node, zero-terminated; empty: VM and the number */
  m3_cpumask_t vm_cpumask; /* no effect in this release; out: empty, which is all CPUs */
  int vm_grace_ms;         /* mnx_vm_end: milliseconds from SIGPIPE to SIGKILL; 0: 1,000 */
  unsigned int vm_mode;    /* permission bits as of a file, for owner, group and others: 4 read,
                              2 bind tasks and servers, 1 bind users; 0: 0750 */
  unsigned int vm_uid;     /* out: user id of the owner */
  unsigned int vm_gid;     /* out: group id of the owner */
  unsigned int vm_members; /* out: bound endpoints */
  unsigned int vm_copy;    /* M3_COPY_OPEN or M3_COPY_GRANTED */
  unsigned int vm_life;    /* M3_VM_UNTIL_ENDED, M3_VM_WITH_CREATOR or M3_VM_WITH_MEMBERS */
  unsigned int vm_reserved; /* 0 */
};
typedef struct m3_vm_usr m3_vm_usr_t;

#define M3_VM_USR_FORMAT "vm_vmid=%d vm_nr_procs=%d vm_nr_tasks=%d vm_nr_sysprocs=%d " \
  "vm_nr_nodes=%d vm_flags=%X vm_nodes=%lX vm_name=%.16s\n"
#define M3_VM_USR_FIELDS(p) (p)->vm_vmid, (p)->vm_nr_procs, (p)->vm_nr_tasks, \
  (p)->vm_nr_sysprocs, (p)->vm_nr_nodes, (unsigned int)(p)->vm_flags, (p)->vm_nodes, (p)->vm_name
#define M3_VM_CPU_FORMAT "vm_vmid=%d vm_cpumask=%lX vm_name=%.16s\n"
#define M3_VM_CPU_FIELDS(p) (p)->vm_vmid, (p)->vm_cpumask.bits[0], (p)->vm_name
#define M3_VM_WARN_FORMAT "vm_vmid=%d vm_warn2proc=%d vm_warnmsg=%d\n"
#define M3_VM_WARN_FIELDS(p) (p)->vm_vmid, (p)->vm_warn2proc, (p)->vm_warnmsg

/* ---- A process --------------------------------------------------------- */

/* The state of one slot of a VM, from mnx_getprocinfo. */
struct m3_proc_usr {
  int p_nr;       /* slot */
  int p_endpoint; /* endpoint of the process, or M3_NONE if the slot is free */
  M3_EXTENSION union {
    int p_vmid;   /* number of the VM */
    int p_dcid;   /* the same, in the later words */
  };
  volatile unsigned long p_rts_flags; /* M3_PROC_RUNNING, or bits of enum m3_proc_status */
  int p_lpid;              /* process or thread id on this node, or M3_PROC_NO_PID */
  int p_vpid;              /* the same id in the pid namespace of the process */
  int p_nodeid;            /* node of the process */
  unsigned long p_nodemap; /* set of nodes that know the process */
  volatile unsigned long p_misc_flags; /* 0 */
  int p_getfrom;           /* source of its receive: endpoint, M3_ANY, or M3_NONE */
  int p_sendto;            /* destination of its send: endpoint, or M3_NONE */
  int p_waitmigr;          /* endpoint whose move it waits for, or M3_NONE */
  int p_waitunbind;        /* endpoint whose end it waits for, or M3_NONE */
  int p_proxy;             /* proxy at which it is queued, or M3_NONE */
  unsigned long p_lclsent; /* messages sent on this node */
  unsigned long p_rmtsent; /* messages sent to other nodes */
  unsigned long p_lclcopy; /* copies with this process as source, on this node */
  unsigned long p_rmtcopy; /* copies with this process as source, to other nodes */
  char p_name[M3_MAXPROCNAME]; /* name of the program, zero-terminated */
  m3_cpumask_t p_cpumask;  /* CPUs on which the process may run */
};
typedef struct m3_proc_usr m3_proc_usr_t;

#define M3_PROC_USR_FORMAT "p_nr=%d p_endpoint=%d p_vmid=%d p_rts_flags=%lX p_misc_flags=%lX " \
  "p_lpid=%d p_vpid=%d p_nodeid=%d p_nodemap=%lX p_name=%.16s\n"
#define M3_PROC_USR_FIELDS(p) (p)->p_nr, (p)->p_endpoint, (p)->p_vmid, (p)->p_rts_flags, \
  (p)->p_misc_flags, (p)->p_lpid, (p)->p_vpid, (p)->p_nodeid, (p)->p_nodemap, (p)->p_name
#define M3_PROC_WAIT_FORMAT "p_endpoint=%d p_vmid=%d p_rts_flags=%lX p_getfrom=%d p_sendto=%d " \
  "p_waitmigr=%d p_waitunbind=%d p_proxy=%d\n"
#define M3_PROC_WAIT_FIELDS(p) (p)->p_endpoint, (p)->p_vmid, (p)->p_rts_flags, (p)->p_getfrom, \
  (p)->p_sendto, (p)->p_waitmigr, (p)->p_waitunbind, (p)->p_proxy
#define M3_PROC_COUNT_FORMAT "p_nr=%d p_endpoint=%d p_vmid=%d p_lclsent=%lu p_rmtsent=%lu " \
  "p_lclcopy=%lu p_rmtcopy=%lu\n"
#define M3_PROC_COUNT_FIELDS(p) (p)->p_nr, (p)->p_endpoint, (p)->p_vmid, (p)->p_lclsent, \
  (p)->p_rmtsent, (p)->p_lclcopy, (p)->p_rmtcopy
#define M3_PROC_CPU_FORMAT "p_nr=%d p_endpoint=%d p_vmid=%d p_lpid=%d p_cpumask=%lX p_name=%.16s\n"
#define M3_PROC_CPU_FIELDS(p) (p)->p_nr, (p)->p_endpoint, (p)->p_vmid, (p)->p_lpid, \
  (p)->p_cpumask.bits[0], (p)->p_name

/* ---- Privileges -------------------------------------------------------- */

/* Values of s_level. */
#define M3_USER_PRIV   0
#define M3_SERVER_PRIV 1
#define M3_TASK_PRIV   2
#define M3_SYSTEM_PRIV 3
#define M3_KERNEL_PRIV 4
#define M3_PROXY_PRIV  5

typedef short m3_sys_id_t;
typedef unsigned short m3_bitchunk_t;

/*
 * A set of partners. Bits 0 to 63 are tasks and servers: bit n, in chunk[n / 16], is slot
 * n - M3_NR_TASKS. Bit 64 stands for all user slots.
 */
typedef struct { m3_bitchunk_t chunk[8]; } m3_sys_map_t;
/* The bit of a slot; add a slot to a set; remove a slot from a set. */
#define M3_MAP_BIT(nr) ((nr) < M3_NR_SERVERS ? (nr) + M3_NR_TASKS : 64)
#define M3_MAP_SET(map, nr) \
  ((void)((map).chunk[M3_MAP_BIT(nr) / 16] |= (m3_bitchunk_t)(1u << (M3_MAP_BIT(nr) % 16))))
#define M3_MAP_CLEAR(map, nr) \
  ((void)((map).chunk[M3_MAP_BIT(nr) / 16] &= (m3_bitchunk_t)~(1u << (M3_MAP_BIT(nr) % 16))))

/* A set of call numbers, which the library ignores. */
typedef struct { m3_bitchunk_t chunk[4]; } m3_dvk_map_t;

/* A timer of the Minix timer library. It only keeps its place in struct m3_priv_usr. */
struct m3_moltimer {
  struct m3_moltimer *tmr_next;
  unsigned long tmr_exp_time;
  void (*tmr_func)(struct m3_moltimer *);
  union { int ta_int; long ta_long; void *ta_ptr; } tmr_arg;
};
typedef struct m3_moltimer m3_moltimer_t;

/*
 * Privileges of an endpoint, for mnx_setpriv and mnx_getpriv. The second name of each field is that
 * of DVK.
 */
M3_EXTENSION struct m3_priv_usr {
  /* out: bit of the endpoint in the sets of others */
  M3_EXTENSION union { m3_sys_id_t s_id; m3_sys_id_t priv_id; };
  /* M3_NONE or 0: use m3_watch; out: M3_NONE */
  M3_EXTENSION union { int s_warn; int priv_warn; };
  /* level: M3_USER_PRIV to M3_PROXY_PRIV */
  M3_EXTENSION union { int s_level; int priv_level; };
  /* allowed calls: M3_TRAP_... */
  M3_EXTENSION union { short s_trap_mask; short priv_trap_mask; };
  /* partners from which the endpoint may receive */
  M3_EXTENSION union { m3_sys_map_t s_ipc_from; m3_sys_map_t priv_ipc_from; };
  /* partners to which the endpoint may send */
  M3_EXTENSION union { m3_sys_map_t s_ipc_to; m3_sys_map_t priv_ipc_to; };
  /* ignored */
  M3_EXTENSION union { long s_call_mask; m3_dvk_map_t priv_dvk_allowed; };
  M3_EXTENSION union { m3_moltimer_t s_alarm_timer; m3_moltimer_t priv_alarm_timer; };
};
typedef struct m3_priv_usr m3_priv_usr_t;

#define M3_PRIV_USR_FORMAT "s_id=%d s_warn=%d s_level=%d s_trap_mask=%X s_call_mask=%lX\n"
#define M3_PRIV_USR_FIELDS(p) (p)->s_id, (p)->s_warn, (p)->s_level, \
  (unsigned int)(unsigned short)(p)->s_trap_mask, (unsigned long)(p)->s_call_mask

/* ---- Another node ------------------------------------------------------ */

/* Values of n_flags. */
#define M3_NODE_FREE       0
#define M3_NODE_ATTACHED   (1 << 1)
#define M3_NODE_SCONNECTED (1 << 2)
#define M3_NODE_RCONNECTED (1 << 3)

#define M3_NO_PROXIES      (-1)

/* The state of a node, from mnx_getnodeinfo. */
struct m3_node_usr {
  int n_nodeid;                   /* number of the node */
  volatile unsigned long n_flags; /* M3_NODE_... */
  int n_proxies;                  /* number of its proxies, or M3_NO_PROXIES */
  M3_EXTENSION union { unsigned long n_vms; unsigned long n_dcs; }; /* set of VMs that span it */
  struct timespec n_stimestamp;   /* time of the last message to the node */
  struct timespec n_rtimestamp;   /* time of the last message from the node */
  unsigned long n_pxsent;         /* messages sent to the node */
  unsigned long n_pxrcvd;         /* messages received from the node */
  char n_name[M3_MAXNODENAME];    /* name, zero-terminated */
};
typedef struct m3_node_usr m3_node_usr_t;

#define M3_NODE_USR_FORMAT "n_nodeid=%d n_proxies=%d n_flags=%lX n_vms=%lX n_name=%.16s\n"
#define M3_NODE_USR_FIELDS(p) (p)->n_nodeid, (p)->n_proxies, (p)->n_flags, (p)->n_vms, (p)->n_name
#define M3_NODE_TIME_FORMAT \
  "n_nodeid=%d n_name=%.16s n_stimestamp=%ld.%09ld n_rtimestamp=%ld.%09ld\n"
#define M3_NODE_TIME_FIELDS(p) (p)->n_nodeid, (p)->n_name, \
  (long)(p)->n_stimestamp.tv_sec, (long)(p)->n_stimestamp.tv_nsec, \
  (long)(p)->n_rtimestamp.tv_sec, (long)(p)->n_rtimestamp.tv_nsec

/* ---- Loans and grants -------------------------------------------------- */

/* Rights of a loan or grant. */
#define M3_READ  1u /* the borrower may copy from the memory */
#define M3_WRITE 2u /* the borrower may copy into the memory */

/* The largest number of loans of one call. */
#define M3_LOANS_MAX 16

/* A range of memory that a request lends, for m3_sendrec_lent. */
struct m3_loan {
  void *base;          /* first byte */
  size_t bytes;        /* number of bytes */
  unsigned int rights; /* M3_READ, M3_WRITE or both */
};

/* The name of a grant: a number to pass in a message, never 0. */
typedef uint64_t m3_grant_t;

/* ---- A peer ------------------------------------------------------------ */

/* The sender of the last message, from m3_peer. The node vouches for every field. */
struct m3_peer {
  int endpoint;
  int vmid;         /* number of its VM */
  int nodeid;       /* number of its node */
  int pid;          /* process id, also if a thread of the process has the endpoint */
  unsigned int uid; /* effective user id at its bind */
  unsigned int gid; /* effective group id at its bind */
  unsigned int reserved[2]; /* 0 */
};

#if defined(__x86_64__) && !defined(__ILP32__)
M3_STATIC_ASSERT(sizeof(struct m3_drvs_usr) == 80, drvs_usr_is_80_bytes);
M3_STATIC_ASSERT(sizeof(struct m3_vm_usr) == 224, vm_usr_is_224_bytes);
M3_STATIC_ASSERT(offsetof(struct m3_vm_usr, vm_name) == 44, vm_name_at_44);
M3_STATIC_ASSERT(offsetof(struct m3_vm_usr, vm_grace_ms) == 192, vm_grace_at_192);
M3_STATIC_ASSERT(offsetof(struct m3_vm_usr, vm_life) == 216, vm_life_at_216);
M3_STATIC_ASSERT(sizeof(struct m3_proc_usr) == 256, proc_usr_is_256_bytes);
M3_STATIC_ASSERT(offsetof(struct m3_proc_usr, p_name) == 112, p_name_at_112);
M3_STATIC_ASSERT(sizeof(struct m3_priv_usr) == 88, priv_usr_is_88_bytes);
M3_STATIC_ASSERT(sizeof(struct m3_node_usr) == 96, node_usr_is_96_bytes);
M3_STATIC_ASSERT(sizeof(struct m3_peer) == 32, m3_peer_is_32_bytes);
#endif

#endif /* M3IPC_RECORDS_H */
