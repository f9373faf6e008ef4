/*
 * The short names of M3-IPC: each is the prefixed name of m3ipc.h without its prefix. m3ipc.h
 * includes this file unless M3_NO_SHORT_NAMES is defined.
 *
 * tests/c/check_names.sh checks that each short name has its prefixed twin.
 */
#ifndef M3IPC_SHORT_H
#define M3IPC_SHORT_H

#include "codes.h"
#include "records.h"

/* ---- Codes ------------------------------------------------------------- */

#define OK M3_OK

/* ---- Numbers ----------------------------------------------------------- */

#define ANY  M3_ANY
#define NONE M3_NONE
#define SELF M3_SELF

#define TIMEOUT_NOWAIT  M3_TIMEOUT_NOWAIT
#define TIMEOUT_FOREVER M3_TIMEOUT_FOREVER

#define NR_VMS         M3_NR_VMS
#define NR_NODES       M3_NR_NODES
#define NR_PROCS       M3_NR_PROCS
#define NR_FIXED_TASKS M3_NR_FIXED_TASKS
#define NR_SYSTASKS    M3_NR_SYSTASKS
#define NR_TASKS       M3_NR_TASKS
#define NR_SERVERS     M3_NR_SERVERS
#define NR_SYS_PROCS   M3_NR_SYS_PROCS
#define NR_USR_PROCS   M3_NR_USR_PROCS

#define MAXCOPYBUF  M3_MAXCOPYBUF
#define MAXCOPYLEN  M3_MAXCOPYLEN
#define MAXVMNAME   M3_MAXVMNAME
#define MAXPROCNAME M3_MAXPROCNAME
#define MAXNODENAME M3_MAXNODENAME

#define LOCALNODE   M3_LOCALNODE
#define PROC_NO_PID M3_PROC_NO_PID

#define _MAX_MAGIC_PROC           M3_MAX_MAGIC_PROC
#define _ENDPOINT_GENERATION_SIZE M3_ENDPOINT_GENERATION_SIZE
#define _ENDPOINT_MAX_GENERATION  M3_ENDPOINT_MAX_GENERATION
#define _ENDPOINT(g, p)           M3_ENDPOINT(g, p)
#define _ENDPOINT_G(e)            M3_ENDPOINT_G(e)
#define _ENDPOINT_P(e)            M3_ENDPOINT_P(e)

#define KERNEL     M3_KERNEL
#define HARDWARE   M3_HARDWARE
#define SYSTEM     M3_SYSTEM
#define SYSTASK(n) M3_SYSTASK(n)
#define SLOTS      M3_SLOTS
#define CLOCK      M3_CLOCK

#define PM_PROC_NR    M3_PM_PROC_NR
#define FS_PROC_NR    M3_FS_PROC_NR
#define RS_PROC_NR    M3_RS_PROC_NR
#define RDISK_PROC_NR M3_RDISK_PROC_NR
#define LOG_PROC_NR   M3_LOG_PROC_NR
#define TTY_PROC_NR   M3_TTY_PROC_NR
#define ETH_PROC_NR   M3_ETH_PROC_NR
#define DS_PROC_NR    M3_DS_PROC_NR
#define IS_PROC_NR    M3_IS_PROC_NR
#define INET_PROC_NR  M3_INET_PROC_NR
#define DEMON_PROC_NR M3_DEMON_PROC_NR
#define NBD_PROC_NR   M3_NBD_PROC_NR
#define RDISK_MASTER  M3_RDISK_MASTER
#define RDISK_SLAVE   M3_RDISK_SLAVE
#define INIT_PROC_NR  M3_INIT_PROC_NR
#define FIRST_USER_NR M3_FIRST_USER_NR

#define NOTIFY_MESSAGE  M3_NOTIFY_MESSAGE
#define NOTIFY_FROM(nr) M3_NOTIFY_FROM(nr)
#define PROC_EVENT      M3_PROC_EVENT
#define SYN_ALARM       M3_SYN_ALARM
#define SYS_SIG         M3_SYS_SIG
#define HARD_INT        M3_HARD_INT

#define PROC_RUNNING   M3_PROC_RUNNING
#define BIT_SLOT_FREE  M3_BIT_SLOT_FREE
#define BIT_NO_MAP     M3_BIT_NO_MAP
#define BIT_SENDING    M3_BIT_SENDING
#define BIT_RECEIVING  M3_BIT_RECEIVING
#define BIT_ONCOPY     M3_BIT_ONCOPY
#define BIT_MIGRATE    M3_BIT_MIGRATE
#define BIT_REMOTE     M3_BIT_REMOTE
#define BIT_RMTOPER    M3_BIT_RMTOPER
#define BIT_WAITMIGR   M3_BIT_WAITMIGR
#define BIT_WAITUNBIND M3_BIT_WAITUNBIND
#define BIT_WAITBIND   M3_BIT_WAITBIND

#define VM_RUNNING  M3_VM_RUNNING
#define BIT_VM_FREE M3_BIT_VM_FREE
#define VM_FREE     M3_VM_FREE

enum proc_status {
  SLOT_FREE = M3_SLOT_FREE,
  NO_MAP = M3_NO_MAP,
  SENDING = M3_SENDING,
  RECEIVING = M3_RECEIVING,
  ONCOPY = M3_ONCOPY,
  MIGRATING = M3_MIGRATING,
  REMOTE = M3_REMOTE,
  RMTOPER = M3_RMTOPER,
  WAITMIGR = M3_WAITMIGR,
  WAITUNBIND = M3_WAITUNBIND,
  WAITBIND = M3_WAITBIND
};

/* ---- The message ------------------------------------------------------- */

typedef m3_message message;
typedef m3_mess_1 mess_1;
typedef m3_mess_2 mess_2;
typedef m3_mess_3 mess_3;
typedef m3_mess_4 mess_4;
typedef m3_mess_5 mess_5;
typedef m3_mess_6 mess_6;
typedef m3_mess_7 mess_7;
typedef m3_mess_8 mess_8;
typedef m3_mess_9 mess_9;
typedef m3_mess_A mess_A;
typedef m3_mess_B mess_B;
typedef m3_mess_C mess_C;

#define M3_STRING    M3_M3_STRING
#define SLOTS_BY_MSG M3_SLOTS_BY_MSG
#define MD5_SIZE     M3_MD5_SIZE
#define MC_STRING    M3_MC_STRING

#define m1_i1 m3_m1_i1
#define m1_i2 m3_m1_i2
#define m1_i3 m3_m1_i3
#define m1_p1 m3_m1_p1
#define m1_p2 m3_m1_p2
#define m1_p3 m3_m1_p3

#define m2_i1 m3_m2_i1
#define m2_i2 m3_m2_i2
#define m2_i3 m3_m2_i3
#define m2_l1 m3_m2_l1
#define m2_l2 m3_m2_l2
#define m2_p1 m3_m2_p1

#define m3_i1  m3_m3_i1
#define m3_i2  m3_m3_i2
#define m3_p1  m3_m3_p1
#define m3_ca1 m3_m3_ca1

#define m4_l1 m3_m4_l1
#define m4_l2 m3_m4_l2
#define m4_l3 m3_m4_l3
#define m4_l4 m3_m4_l4
#define m4_l5 m3_m4_l5

#define m5_c1 m3_m5_c1
#define m5_c2 m3_m5_c2
#define m5_i1 m3_m5_i1
#define m5_i2 m3_m5_i2
#define m5_l1 m3_m5_l1
#define m5_l2 m3_m5_l2
#define m5_l3 m3_m5_l3

#define m6_ca1 m3_m6_ca1

#define m7_i1 m3_m7_i1
#define m7_i2 m3_m7_i2
#define m7_i3 m3_m7_i3
#define m7_i4 m3_m7_i4
#define m7_p1 m3_m7_p1
#define m7_p2 m3_m7_p2

#define m8_i1 m3_m8_i1
#define m8_i2 m3_m8_i2
#define m8_p1 m3_m8_p1
#define m8_p2 m3_m8_p2
#define m8_p3 m3_m8_p3
#define m8_p4 m3_m8_p4

#define m9_i1 m3_m9_i1
#define m9_l1 m3_m9_l1
#define m9_t1 m3_m9_t1

#define mA_dst m3_mA_dst
#define mA_nr  m3_mA_nr
#define mA_ia  m3_mA_ia

#define mB_nr  m3_mB_nr
#define mB_md5 m3_mB_md5

#define mC_i1  m3_mC_i1
#define mC_i2  m3_mC_i2
#define mC_i3  m3_mC_i3
#define mC_i4  m3_mC_i4
#define mC_ca1 m3_mC_ca1

#define NOTIFY_SOURCE    M3_NOTIFY_SOURCE
#define NOTIFY_TYPE      M3_NOTIFY_TYPE
#define NOTIFY_ARG       M3_NOTIFY_ARG
#define NOTIFY_ARG_HIGH  M3_NOTIFY_ARG_HIGH
#define NOTIFY_TIMESTAMP M3_NOTIFY_TIMESTAMP

#define MSG1_FORMAT M3_MSG1_FORMAT
#define MSG2_FORMAT M3_MSG2_FORMAT
#define MSG3_FORMAT M3_MSG3_FORMAT
#define MSG4_FORMAT M3_MSG4_FORMAT
#define MSG5_FORMAT M3_MSG5_FORMAT
#define MSG6_FORMAT M3_MSG6_FORMAT
#define MSG7_FORMAT M3_MSG7_FORMAT
#define MSG8_FORMAT M3_MSG8_FORMAT
#define MSG9_FORMAT M3_MSG9_FORMAT
#define MSGA_FORMAT M3_MSGA_FORMAT
#define MSGB_FORMAT M3_MSGB_FORMAT
#define MSGC_FORMAT M3_MSGC_FORMAT

#define MSG1_FIELDS(p) M3_MSG1_FIELDS(p)
#define MSG2_FIELDS(p) M3_MSG2_FIELDS(p)
#define MSG3_FIELDS(p) M3_MSG3_FIELDS(p)
#define MSG4_FIELDS(p) M3_MSG4_FIELDS(p)
#define MSG5_FIELDS(p) M3_MSG5_FIELDS(p)
#define MSG6_FIELDS(p) M3_MSG6_FIELDS(p)
#define MSG7_FIELDS(p) M3_MSG7_FIELDS(p)
#define MSG8_FIELDS(p) M3_MSG8_FIELDS(p)
#define MSG9_FIELDS(p) M3_MSG9_FIELDS(p)
#define MSGA_FIELDS(p) M3_MSGA_FIELDS(p)
#define MSGB_FIELDS(p) M3_MSGB_FIELDS(p)
#define MSGC_FIELDS(p) M3_MSGC_FIELDS(p)

/* ---- Records ----------------------------------------------------------- */

/* Macros, so that "struct drvs_usr" of a program means the same type. */
#define drvs_usr m3_drvs_usr
#define VM_usr   m3_vm_usr
#define proc_usr m3_proc_usr
#define priv_usr m3_priv_usr
#define node_usr m3_node_usr
#define moltimer m3_moltimer

typedef m3_drvs_usr_t drvs_usr_t;
typedef m3_vm_usr_t VM_usr_t;
typedef m3_vm_usr_t vm_usr_t;
typedef m3_proc_usr_t proc_usr_t;
typedef m3_priv_usr_t priv_usr_t;
typedef m3_node_usr_t node_usr_t;
typedef m3_moltimer_t moltimer_t;
typedef m3_sys_id_t sys_id_t;
typedef m3_bitchunk_t bitchunk_t;
typedef m3_sys_map_t sys_map_t;
typedef m3_dvk_map_t dvk_map_t;

#define DRVS_USR_FORMAT    M3_DRVS_USR_FORMAT
#define DRVS_USR_FIELDS(p) M3_DRVS_USR_FIELDS(p)
#define DRVS_MAX_FORMAT    M3_DRVS_MAX_FORMAT
#define DRVS_MAX_FIELDS(p) M3_DRVS_MAX_FIELDS(p)
#define DRVS_VER_FORMAT    M3_DRVS_VER_FORMAT
#define DRVS_VER_FIELDS(p) M3_DRVS_VER_FIELDS(p)

#define VM_USR_FORMAT     M3_VM_USR_FORMAT
#define VM_USR_FIELDS(p)  M3_VM_USR_FIELDS(p)
#define VM_CPU_FORMAT     M3_VM_CPU_FORMAT
#define VM_CPU_FIELDS(p)  M3_VM_CPU_FIELDS(p)
#define VM_WARN_FORMAT    M3_VM_WARN_FORMAT
#define VM_WARN_FIELDS(p) M3_VM_WARN_FIELDS(p)

#define PROC_USR_FORMAT      M3_PROC_USR_FORMAT
#define PROC_USR_FIELDS(p)   M3_PROC_USR_FIELDS(p)
#define PROC_WAIT_FORMAT     M3_PROC_WAIT_FORMAT
#define PROC_WAIT_FIELDS(p)  M3_PROC_WAIT_FIELDS(p)
#define PROC_COUNT_FORMAT    M3_PROC_COUNT_FORMAT
#define PROC_COUNT_FIELDS(p) M3_PROC_COUNT_FIELDS(p)
#define PROC_CPU_FORMAT      M3_PROC_CPU_FORMAT
#define PROC_CPU_FIELDS(p)   M3_PROC_CPU_FIELDS(p)

#define USER_PRIV   M3_USER_PRIV
#define SERVER_PRIV M3_SERVER_PRIV
#define TASK_PRIV   M3_TASK_PRIV
#define SYSTEM_PRIV M3_SYSTEM_PRIV
#define KERNEL_PRIV M3_KERNEL_PRIV
#define PROXY_PRIV  M3_PROXY_PRIV

#define PRIV_USR_FORMAT    M3_PRIV_USR_FORMAT
#define PRIV_USR_FIELDS(p) M3_PRIV_USR_FIELDS(p)

#define NODE_FREE           M3_NODE_FREE
#define NODE_ATTACHED       M3_NODE_ATTACHED
#define NODE_SCONNECTED     M3_NODE_SCONNECTED
#define NODE_RCONNECTED     M3_NODE_RCONNECTED
#define NODE_USR_FORMAT     M3_NODE_USR_FORMAT
#define NODE_USR_FIELDS(p)  M3_NODE_USR_FIELDS(p)
#define NODE_TIME_FORMAT    M3_NODE_TIME_FORMAT
#define NODE_TIME_FIELDS(p) M3_NODE_TIME_FIELDS(p)

#endif /* M3IPC_SHORT_H */
