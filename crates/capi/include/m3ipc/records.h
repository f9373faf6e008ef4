/*
 * Records of m3ipc: what describes the node, its VMs, its processes and their
 * privileges. Each is written here once in the words of M3-IPC (drvs, vm) and,
 * where a field has another name in the later releases (dvs, dc), once more in
 * theirs, with the same layout.
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

/* A set of CPUs: bit n is CPU n. Same size as cpu_set_t of the C library. */
typedef struct { unsigned long bits[16]; } m3_cpumask_t;

/* ---- The node ---------------------------------------------------------- */

/* Bits of d_flags. */
#define M3_DRVS_USERMODE    (1 << 2) /* in user space: always set */
#define M3_DRVS_INITIALIZED (1 << 8) /* the node runs */

/*
 * Parameters of the node, for drvs_init and from getdrvsinfo. In drvs_init a 0
 * stands for the value of the configuration file or of the environment, and
 * without those for the default. On success drvs_init writes the values in force.
 * A count out of its range is -338, a copy limit that makes no sense -339.
 */
struct drvs_usr {
  int d_nr_vms;           /* VMs: 1 to M3_VMS_MAX */
  int d_nr_nodes;         /* nodes: 1 to M3_NODES_MAX */
  int d_nr_procs;         /* process slots of a VM: 1 to M3_PROCS_MAX */
  int d_nr_tasks;         /* task slots of a VM: 1 to NR_TASKS */
  int d_nr_sysprocs;      /* tasks and servers: above d_nr_tasks, below tasks and processes;
                             out: d_nr_tasks and NR_SERVERS, which is fixed */
  int d_max_copybuf;      /* bytes copied in one piece: at most d_max_copylen */
  int d_max_copylen;      /* bytes of one vcopy */
  unsigned long d_dbglvl; /* trace level bits: not looked at; out: 0 */
  int d_version;          /* out: version of the node daemon, major */
  int d_subver;           /* out: version of the node daemon, minor */
  unsigned long d_flags;  /* out: M3_DRVS_... */
  int d_size_proc;        /* out: bytes of one process record of the daemon */
  char d_name[MAXPROCNAME]; /* name of the system; zero-terminated */
};
typedef struct drvs_usr drvs_usr_t;

struct dvs_usr {
  int d_nr_dcs;
  int d_nr_nodes;
  int d_nr_procs;
  int d_nr_tasks;
  int d_nr_sysprocs;
  int d_max_copybuf;
  int d_max_copylen;
  unsigned long d_dbglvl;
  int d_version;
  int d_subver;
  unsigned long d_flags;
  int d_size_proc;
  char d_name[MAXPROCNAME];
};
typedef struct dvs_usr dvs_usr_t;

#define DRVS_USR_FORMAT \
  "d_name=%.16s d_nr_vms=%d d_nr_nodes=%d d_nr_procs=%d d_nr_tasks=%d d_nr_sysprocs=%d\n"
#define DRVS_USR_FIELDS(p) (p)->d_name, (p)->d_nr_vms, (p)->d_nr_nodes, (p)->d_nr_procs, \
  (p)->d_nr_tasks, (p)->d_nr_sysprocs
#define DVS_USR_FORMAT \
  "d_name=%.16s d_nr_dcs=%d d_nr_nodes=%d d_nr_procs=%d d_nr_tasks=%d d_nr_sysprocs=%d\n"
#define DVS_USR_FIELDS(p) (p)->d_name, (p)->d_nr_dcs, (p)->d_nr_nodes, (p)->d_nr_procs, \
  (p)->d_nr_tasks, (p)->d_nr_sysprocs
#define DVS_MAX_FORMAT "d_max_copybuf=%d d_max_copylen=%d\n"
#define DVS_MAX_FIELDS(p) (p)->d_max_copybuf, (p)->d_max_copylen
#define DRVS_MAX_FORMAT DVS_MAX_FORMAT
#define DRVS_MAX_FIELDS(p) DVS_MAX_FIELDS(p)
#define DVS_VER_FORMAT "d_dbglvl=%lX d_version=%d.%d d_flags=%lX d_size_proc=%d\n"
#define DVS_VER_FIELDS(p) (p)->d_dbglvl, (p)->d_version, (p)->d_subver, (p)->d_flags, \
  (p)->d_size_proc
#define DRVS_VER_FORMAT DVS_VER_FORMAT
#define DRVS_VER_FIELDS(p) DVS_VER_FIELDS(p)

/* ---- A VM -------------------------------------------------------------- */

/* What vcopy may copy among members of one user; among users it is always what was granted. */
#define M3_COPY_OPEN    0 /* all memory of a party */
#define M3_COPY_GRANTED 1 /* what the party has lent or granted */

/*
 * Parameters of a VM, for vm_init and from getvminfo. In vm_init a 0 in a limit
 * stands for the node's. The fields from vm_grace_ms on are ours; all bytes zero
 * is a valid choice for them.
 */
struct VM_usr {
  int vm_vmid;            /* 0 to d_nr_vms - 1 */
  int vm_flags;           /* out: VM_RUNNING or VM_FREE */
  int vm_nr_procs;        /* process slots */
  int vm_nr_tasks;        /* task slots */
  int vm_nr_sysprocs;     /* tasks and servers */
  int vm_nr_nodes;        /* nodes it may span */
  unsigned long vm_nodes; /* set of nodes it spans; 0: this node */
  int vm_warn2proc;       /* endpoint told of each end of a member: not yet; out: NONE */
  int vm_warnmsg;         /* with a message of this type: not yet; out: 0 */
  int vm_pid;             /* out: process that made the VM, or PROC_NO_PID: not known */
  char vm_name[MAXVMNAME]; /* unique on the node, zero-terminated; empty: VM and the id */
  m3_cpumask_t vm_cpumask; /* CPUs of its members: not yet; out: empty, which is all */
  int vm_grace_ms;        /* vm_end: from SIGPIPE to SIGKILL; 0: 1,000 */
  unsigned int vm_mode;   /* as of a file: 4 look, 2 bind tasks and servers, 1 bind; 0: 0750 */
  unsigned int vm_uid;    /* out: owner */
  unsigned int vm_gid;    /* out: group of the owner */
  unsigned int vm_members; /* out: endpoints bound */
  unsigned int vm_copy;   /* M3_COPY_OPEN or M3_COPY_GRANTED */
  unsigned int vm_reserved[2]; /* zero */
};
typedef struct VM_usr VM_usr_t;
typedef struct VM_usr vm_usr_t;

struct dc_usr {
  int dc_dcid;
  int dc_flags;
  int dc_nr_procs;
  int dc_nr_tasks;
  int dc_nr_sysprocs;
  int dc_nr_nodes;
  unsigned long dc_nodes;
  int dc_warn2proc;
  int dc_warnmsg;
  int dc_pid;
  char dc_name[MAXDCNAME];
  m3_cpumask_t dc_cpumask;
  int dc_grace_ms;
  unsigned int dc_mode;
  unsigned int dc_uid;
  unsigned int dc_gid;
  unsigned int dc_members;
  unsigned int dc_copy;
  unsigned int dc_reserved[2];
};
typedef struct dc_usr dc_usr_t;

#define VM_USR_FORMAT "vm_vmid=%d vm_nr_procs=%d vm_nr_tasks=%d vm_nr_sysprocs=%d " \
  "vm_nr_nodes=%d vm_flags=%X vm_nodes=%lX vm_name=%.16s\n"
#define VM_USR_FIELDS(p) (p)->vm_vmid, (p)->vm_nr_procs, (p)->vm_nr_tasks, \
  (p)->vm_nr_sysprocs, (p)->vm_nr_nodes, (unsigned int)(p)->vm_flags, (p)->vm_nodes, (p)->vm_name
#define VM_CPU_FORMAT "vm_vmid=%d vm_cpumask=%lX vm_name=%.16s\n"
#define VM_CPU_FIELDS(p) (p)->vm_vmid, (p)->vm_cpumask.bits[0], (p)->vm_name
#define VM_WARN_FORMAT "vm_vmid=%d vm_warn2proc=%d vm_warnmsg=%d\n"
#define VM_WARN_FIELDS(p) (p)->vm_vmid, (p)->vm_warn2proc, (p)->vm_warnmsg

#define DC_USR_FORMAT "dc_dcid=%d dc_nr_procs=%d dc_nr_tasks=%d dc_nr_sysprocs=%d " \
  "dc_nr_nodes=%d dc_flags=%X dc_nodes=%lX dc_name=%.16s\n"
#define DC_USR_FIELDS(p) (p)->dc_dcid, (p)->dc_nr_procs, (p)->dc_nr_tasks, \
  (p)->dc_nr_sysprocs, (p)->dc_nr_nodes, (unsigned int)(p)->dc_flags, (p)->dc_nodes, (p)->dc_name
#define DC_USR1_FORMAT "dc_dcid=%d dc_nr_procs=%d dc_nr_tasks=%d dc_nr_sysprocs=%d dc_nr_nodes=%d\n"
#define DC_USR1_FIELDS(p) (p)->dc_dcid, (p)->dc_nr_procs, (p)->dc_nr_tasks, \
  (p)->dc_nr_sysprocs, (p)->dc_nr_nodes
#define DC_USR2_FORMAT "dc_flags=%X dc_nodes=%lX dc_pid=%d dc_name=%.16s\n"
#define DC_USR2_FIELDS(p) (unsigned int)(p)->dc_flags, (p)->dc_nodes, (p)->dc_pid, (p)->dc_name
#define DC_CPU_FORMAT "dc_dcid=%d dc_cpumask=%lX dc_name=%.16s\n"
#define DC_CPU_FIELDS(p) (p)->dc_dcid, (p)->dc_cpumask.bits[0], (p)->dc_name
#define DC_WARN_FORMAT "dc_dcid=%d dc_warn2proc=%d dc_warnmsg=%d\n"
#define DC_WARN_FIELDS(p) (p)->dc_dcid, (p)->dc_warn2proc, (p)->dc_warnmsg

/* ---- A process --------------------------------------------------------- */

/* One slot of a VM, from getprocinfo. */
struct proc_usr {
  int p_nr;       /* slot */
  int p_endpoint; /* endpoint of its holder, or NONE when free */
  M3_EXTENSION union {
    int p_vmid;   /* VM */
    int p_dcid;
  };
  volatile unsigned long p_rts_flags; /* PROC_RUNNING or bits of enum proc_status */
  int p_lpid;              /* process (or thread) id on this node, or PROC_NO_PID */
  int p_vpid;              /* the same in its own pid namespace */
  int p_nodeid;            /* node it lives on */
  unsigned long p_nodemap; /* set of nodes that know it */
  volatile unsigned long p_misc_flags; /* 0 */
  int p_getfrom;           /* whom it receives from: endpoint, ANY, or NONE */
  int p_sendto;            /* whom it sends to: endpoint, or NONE */
  int p_waitmigr;          /* whose move it waits for, or NONE */
  int p_waitunbind;        /* whose end it waits for, or NONE */
  int p_proxy;             /* proxy it is queued at, or NONE */
  unsigned long p_lclsent; /* messages sent, local */
  unsigned long p_rmtsent; /* messages sent, remote */
  unsigned long p_lclcopy; /* copies as source, local */
  unsigned long p_rmtcopy; /* copies as source, remote */
  char p_name[MAXPROCNAME]; /* name of the program, zero-terminated */
  m3_cpumask_t p_cpumask;  /* CPUs it may run on */
};
typedef struct proc_usr proc_usr_t;

#define PROC_USR_FORMAT "p_nr=%d p_endpoint=%d p_vmid=%d p_rts_flags=%lX p_misc_flags=%lX " \
  "p_lpid=%d p_vpid=%d p_nodeid=%d p_nodemap=%lX p_name=%.16s\n"
#define PROC_USR_FIELDS(p) (p)->p_nr, (p)->p_endpoint, (p)->p_vmid, (p)->p_rts_flags, \
  (p)->p_misc_flags, (p)->p_lpid, (p)->p_vpid, (p)->p_nodeid, (p)->p_nodemap, (p)->p_name
#define PROC_WAIT_FORMAT "p_endpoint=%d p_vmid=%d p_rts_flags=%lX p_getfrom=%d p_sendto=%d " \
  "p_waitmigr=%d p_waitunbind=%d p_proxy=%d\n"
#define PROC_WAIT_FIELDS(p) (p)->p_endpoint, (p)->p_vmid, (p)->p_rts_flags, (p)->p_getfrom, \
  (p)->p_sendto, (p)->p_waitmigr, (p)->p_waitunbind, (p)->p_proxy
#define PROC_COUNT_FORMAT "p_nr=%d p_endpoint=%d p_vmid=%d p_lclsent=%lu p_rmtsent=%lu " \
  "p_lclcopy=%lu p_rmtcopy=%lu\n"
#define PROC_COUNT_FIELDS(p) (p)->p_nr, (p)->p_endpoint, (p)->p_vmid, (p)->p_lclsent, \
  (p)->p_rmtsent, (p)->p_lclcopy, (p)->p_rmtcopy
#define PROC_CPU_FORMAT "p_nr=%d p_endpoint=%d p_vmid=%d p_lpid=%d p_cpumask=%lX p_name=%.16s\n"
#define PROC_CPU_FIELDS(p) (p)->p_nr, (p)->p_endpoint, (p)->p_vmid, (p)->p_lpid, \
  (p)->p_cpumask.bits[0], (p)->p_name

/* ---- Privileges -------------------------------------------------------- */

/* Values of s_level. */
#define USER_PRIV   0
#define SERVER_PRIV 1
#define TASK_PRIV   2
#define SYSTEM_PRIV 3
#define KERNEL_PRIV 4
#define PROXY_PRIV  5

typedef short sys_id_t;
typedef sys_id_t dvk_id_t;
typedef unsigned short bitchunk_t;

/*
 * A set of partners. Bit n, in chunk[n / 16], is the slot n - NR_TASKS for tasks
 * and servers (bits 0 to 63); bit 64 is all user slots together.
 */
typedef struct { bitchunk_t chunk[8]; } sys_map_t;
typedef sys_map_t ipc_map_t;
#define M3_MAP_BIT(nr) ((nr) < NR_SERVERS ? (nr) + NR_TASKS : 64)
#define M3_MAP_SET(map, nr) \
  ((void)((map).chunk[M3_MAP_BIT(nr) / 16] |= (bitchunk_t)(1u << (M3_MAP_BIT(nr) % 16))))
#define M3_MAP_CLEAR(map, nr) \
  ((void)((map).chunk[M3_MAP_BIT(nr) / 16] &= (bitchunk_t)~(1u << (M3_MAP_BIT(nr) % 16))))

/* A set of call numbers, not looked at. */
typedef struct { bitchunk_t chunk[4]; } dvk_map_t;

/* A timer of the Minix timer library, kept for its place in priv_usr. */
struct moltimer {
  struct moltimer *tmr_next;
  unsigned long tmr_exp_time;
  void (*tmr_func)(struct moltimer *);
  union { int ta_int; long ta_long; void *ta_ptr; } tmr_arg;
};
typedef struct moltimer moltimer_t;
typedef struct moltimer dvktimer_t;

/* Privileges of an endpoint, for setpriv and from getpriv. */
M3_EXTENSION struct priv_usr {
  M3_EXTENSION union { sys_id_t s_id; dvk_id_t priv_id; }; /* out: bit in the sets of others */
  M3_EXTENSION union { int s_warn; int priv_warn; };       /* told of its end: not yet, NONE */
  M3_EXTENSION union { int s_level; int priv_level; };     /* USER_PRIV to PROXY_PRIV */
  M3_EXTENSION union { short s_trap_mask; short priv_trap_mask; };     /* calls: M3_TRAP_... */
  M3_EXTENSION union { sys_map_t s_ipc_from; ipc_map_t priv_ipc_from; }; /* may receive from */
  M3_EXTENSION union { sys_map_t s_ipc_to; ipc_map_t priv_ipc_to; };     /* may send to */
  M3_EXTENSION union { long s_call_mask; dvk_map_t priv_dvk_allowed; };  /* not looked at */
  M3_EXTENSION union { moltimer_t s_alarm_timer; dvktimer_t priv_alarm_timer; }; /* nor this */
};
typedef struct priv_usr priv_usr_t;

#define PRIV_USR_FORMAT "s_id=%d s_warn=%d s_level=%d s_trap_mask=%X s_call_mask=%lX\n"
#define PRIV_USR_FIELDS(p) (p)->s_id, (p)->s_warn, (p)->s_level, \
  (unsigned int)(unsigned short)(p)->s_trap_mask, (unsigned long)(p)->s_call_mask

/* ---- Another node ------------------------------------------------------ */

#define NODE_FREE       0
#define NODE_ATTACHED   (1 << 1)
#define NODE_SCONNECTED (1 << 2)
#define NODE_RCONNECTED (1 << 3)

/* One node of the system, from getnodeinfo. */
struct node_usr {
  int n_nodeid;
  volatile unsigned long n_flags; /* NODE_... */
  int n_proxies;
  M3_EXTENSION union { unsigned long n_vms; unsigned long n_dcs; }; /* set of VMs that span it */
  struct timespec n_stimestamp; /* last message to it */
  struct timespec n_rtimestamp; /* last message of it */
  unsigned long n_pxsent;       /* messages to it */
  unsigned long n_pxrcvd;       /* messages of it */
  char n_name[MAXNODENAME];
};
typedef struct node_usr node_usr_t;

#define NODE_USR_FORMAT "n_nodeid=%d n_proxies=%d n_flags=%lX n_vms=%lX n_name=%.16s\n"
#define NODE_USR_FIELDS(p) (p)->n_nodeid, (p)->n_proxies, (p)->n_flags, (p)->n_vms, (p)->n_name
#define NODE_TIME_FORMAT "n_nodeid=%d n_name=%.16s n_stimestamp=%ld.%09ld n_rtimestamp=%ld.%09ld\n"
#define NODE_TIME_FIELDS(p) (p)->n_nodeid, (p)->n_name, \
  (long)(p)->n_stimestamp.tv_sec, (long)(p)->n_stimestamp.tv_nsec, \
  (long)(p)->n_rtimestamp.tv_sec, (long)(p)->n_rtimestamp.tv_nsec

/* ---- What is lent ------------------------------------------------------ */

/* What may be done with memory that is lent or granted. */
#define M3_READ  1u
#define M3_WRITE 2u

/* Most loans of one call. */
#define M3_LOANS_MAX 16

/* Memory that is lent with a request, for m3_sendrec_lent. */
struct m3_loan {
  void *base;
  size_t bytes;
  unsigned int rights; /* M3_READ, M3_WRITE or both */
};

/* A grant of memory: goes in a message as any number. Never 0. */
typedef uint64_t m3_grant_t;

/* ---- A peer ------------------------------------------------------------ */

/* Who sent the last message, from m3_peer. The node vouches for every field. */
struct m3_peer {
  int endpoint;
  int vmid;
  int nodeid;
  int pid; /* process, also where a thread of it has the endpoint */
  unsigned int uid; /* effective, at its bind */
  unsigned int gid;
  unsigned int reserved[2]; /* zero */
};

#if defined(__x86_64__) && !defined(__ILP32__)
M3_STATIC_ASSERT(sizeof(struct drvs_usr) == 80, drvs_usr_is_80_bytes);
M3_STATIC_ASSERT(sizeof(struct dvs_usr) == sizeof(struct drvs_usr), dvs_usr_as_drvs_usr);
M3_STATIC_ASSERT(offsetof(struct dvs_usr, d_name) == offsetof(struct drvs_usr, d_name), d_name_as);
M3_STATIC_ASSERT(sizeof(struct VM_usr) == 224, vm_usr_is_224_bytes);
M3_STATIC_ASSERT(sizeof(struct dc_usr) == sizeof(struct VM_usr), dc_usr_as_vm_usr);
M3_STATIC_ASSERT(offsetof(struct VM_usr, vm_name) == 44, vm_name_at_44);
M3_STATIC_ASSERT(offsetof(struct dc_usr, dc_name) == 44, dc_name_at_44);
M3_STATIC_ASSERT(offsetof(struct VM_usr, vm_grace_ms) == 192, vm_grace_at_192);
M3_STATIC_ASSERT(offsetof(struct dc_usr, dc_grace_ms) == 192, dc_grace_at_192);
M3_STATIC_ASSERT(sizeof(struct proc_usr) == 256, proc_usr_is_256_bytes);
M3_STATIC_ASSERT(offsetof(struct proc_usr, p_name) == 112, p_name_at_112);
M3_STATIC_ASSERT(sizeof(struct priv_usr) == 88, priv_usr_is_88_bytes);
M3_STATIC_ASSERT(sizeof(struct node_usr) == 96, node_usr_is_96_bytes);
M3_STATIC_ASSERT(sizeof(struct m3_peer) == 32, m3_peer_is_32_bytes);
#endif

#endif /* M3IPC_RECORDS_H */
